package lab

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestReadRequests(t *testing.T) {
	t.Parallel()
	const (
		patch = `{"verb":"patch","userAgent":"kwok/v0.8.0","requestReceivedTimestamp":"2026-11-01T12:00:00Z","user":{"username":"lab:kwok"},` +
			`"objectRef":{"resource":"pods","namespace":"default","name":"a","subresource":"status"},"responseStatus":{"code":200},"requestObject":{"status":{}}}` + "\n"
		late  = `{"verb":"create","requestReceivedTimestamp":"2026-11-01T11:59:59Z","stageTimestamp":"2026-11-01T12:00:01Z","objectRef":{"resource":"pods"}}` + "\n"
		scale = `{"verb":"update","requestReceivedTimestamp":"2026-11-01T12:00:01Z","objectRef":{"resource":"deployments","apiGroup":"apps","subresource":"scale"},"responseStatus":{"code":409}}` + "\n"
		asked = `{"verb":"create","requestReceivedTimestamp":"2026-11-01T12:00:02Z","objectRef":{"resource":"selfsubjectrulesreviews","apiGroup":"authorization.k8s.io"}}` + "\n"
		read  = `{"verb":"list","requestReceivedTimestamp":"2026-11-01T12:00:02Z","objectRef":{"resource":"pods"}}` + "\n"
		watch = `{"verb":"watch","requestReceivedTimestamp":"2026-11-01T12:00:02Z","objectRef":{"resource":"pods"}}` + "\n"
	)
	patched := Write{
		At: testTime(), User: "lab:kwok", Agent: "kwok/v0.8.0", Verb: "patch", Resource: "pods/status",
		Namespace: "default", Name: "a", Code: 200, Bytes: len(`{"status":{}}`),
	}
	listed := Write{At: testTime().Add(2 * time.Second), Verb: "list", Resource: "pods"}
	watched := Write{At: listed.At, Verb: "watch", Resource: "pods"}
	scaled := Write{At: testTime().Add(time.Second), Verb: "update", Resource: "deployments.apps/scale", Code: 409}
	for _, tc := range []struct {
		name, log string
		since     time.Time
		want      []Write
		reads     []Write
		err       string
	}{
		{name: "an empty log has no writes"},
		{name: "reads and watches are counted separately from writes", log: patch + scale + read + watch, want: []Write{patched, scaled}, reads: []Write{listed, watched}},
		{name: "the given moment counts, earlier ones don't", log: patch + scale, since: scaled.At, want: []Write{scaled}},
		{name: "a review is not a write", log: patch + asked, want: []Write{patched}, reads: []Write{{
			At: testTime().Add(2 * time.Second), Verb: "create", Resource: "selfsubjectrulesreviews.authorization.k8s.io",
		}}},
		{name: "so do reads", log: read + patch, since: listed.At.Add(1)},
		{name: "earlier requests don't count, whenever they were answered", log: patch + late + scale, since: testTime(), want: []Write{patched, scaled}},
		{name: "an incomplete line waits", log: patch + scale[:40], want: []Write{patched}},
		{name: "an invalid line is an error", log: patch + "panic\n", err: `parse "panic\n"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			log := &auditLog{file: filepath.Join(t.TempDir(), "audit.log")}
			require.NoError(t, os.WriteFile(log.file, []byte(tc.log), 0o600))
			got, err := log.since(tc.since)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(tc.want, got.writes))
			require.Empty(t, cmp.Diff(tc.reads, got.reads))
		})
	}

	t.Run("a growing log is read from the last position, even within a line", func(t *testing.T) {
		t.Parallel()
		log := &auditLog{file: filepath.Join(t.TempDir(), "audit.log")}
		for _, step := range []struct {
			log  string
			want []Write
		}{
			{patch + scale[:40], []Write{patched}},
			{patch + scale + read[:10], []Write{patched, scaled}},
			{patch + scale + read + patch, []Write{patched, scaled, patched}},
		} {
			require.NoError(t, os.WriteFile(log.file, []byte(step.log), 0o600))
			got, err := log.since(time.Time{})
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(step.want, got.writes))
		}
		later := &auditLog{file: log.file}
		require.NoError(t, later.skip())
		got, err := later.since(time.Time{})
		require.NoError(t, err)
		require.Empty(t, got.writes, "earlier entries are left out")
	})
}

func TestWritesNeedAnAuditLog(t *testing.T) {
	t.Parallel()
	_, err := newCluster(t.TempDir(), Config{Name: "east"}, Bin{}).Writes(testTime())
	require.ErrorIs(t, err, ErrNoAudit)
}
