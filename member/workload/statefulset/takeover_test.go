package statefulset

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/child"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// TestPlanOfATakeOver: a set that was updated in place, with an ordinal left out, is taken over from OpenKruise. Nothing is
// written to it or its pods, and the counters are those of the former controller.
func TestPlanOfATakeOver(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	set := &appsv1beta1.StatefulSet{}
	left := map[string]func(doc []byte){}
	o := observed{set: set, gates: Gates{DeleteClaims: true}, claims: map[string]*corev1.PersistentVolumeClaim{}}
	left["StatefulSet"] = func(doc []byte) { require.NoError(t, yaml.Unmarshal(doc, set)) }
	left["ControllerRevision"] = func(doc []byte) {
		r := &appsv1.ControllerRevision{}
		require.NoError(t, yaml.Unmarshal(doc, r))
		o.history = append(o.history, r)
	}
	left["Pod"] = func(doc []byte) {
		p := &corev1.Pod{}
		require.NoError(t, yaml.Unmarshal(doc, p))
		require.True(t, child.Of(p, set, Kind()))
		o.pods = append(o.pods, p)
	}
	for doc := range bytes.SplitSeq(file, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal(doc, &kind))
		left[kind.Kind](doc)
	}
	require.Len(t, o.pods, 3)
	revision.Sort(o.history)
	o.wanted, err = wantedRevision(set)
	require.NoError(t, err)
	require.Equal(t, set.Status.UpdateRevision, o.wanted.Name)

	w := plan(o, time.Date(2026, 11, 21, 9, 2, 0, 0, time.UTC))
	require.Equal(t, "  nothing\n", text(w))
	got, events := status(o, w, done{}, now)
	require.Empty(t, events)
	require.Empty(t, cmp.Diff(set.Status, got), "not even the status is written")
}
