package statefulset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/testkit"
)

// TestPlanOfATakeOver: a set that was updated in place, with a reserved ordinal, is taken over from OpenKruise. Nothing is written to its
// pods, and the counts stay those of the previous controller.
func TestPlanOfATakeOver(t *testing.T) {
	t.Parallel()
	set := &appsv1beta1.StatefulSet{}
	o := observed{set: set, gates: Gates{DeletePVCs: true}, pvcs: map[string]*corev1.PersistentVolumeClaim{}}
	o.history, o.pods = testkit.ReadTakeover(t, "testdata/openkruise.yaml", set)
	require.Len(t, o.pods, 3)
	revision.Sort(o.history)
	var err error
	o.wanted, err = wantedRevision(set)
	require.NoError(t, err)
	require.Equal(t, set.Status.UpdateRevision, o.wanted.Name)

	p := plan(o, time.Date(2026, 11, 21, 9, 2, 0, 0, time.UTC))
	require.Equal(t, "  nothing\n", text(p))
	got, events := status(o, p, applied{}, now)
	require.Empty(t, events)
	require.Empty(t, failures(got))
	got.Conditions = nil
	require.Empty(t, cmp.Diff(set.Status, got), "only the readiness in the status differs")
}
