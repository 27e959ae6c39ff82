package cloneset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/testkit"
)

// leftBehind returns what OpenKruise left in a cluster, as it would be observed.
func leftBehind(t *testing.T) observed {
	t.Helper()
	o := observed{set: &appsv1beta1.CloneSet{}}
	o.history, o.pods = testkit.ReadTakeover(t, "testdata/openkruise.yaml", o.set)
	revision.Sort(o.history)
	var err error
	o.wanted, err = wantedRevision(o.set)
	require.NoError(t, err)
	return o
}

// TestPlanOfATakeOver: one pod of four is updated and not ready, and two should stay old. Nothing is restarted or re-created, no revision is
// written, and the counts stay those of the previous controller.
func TestPlanOfATakeOver(t *testing.T) {
	t.Parallel()
	o := leftBehind(t)
	p := plan(o, time.Date(2026, 11, 21, 9, 2, 0, 0, time.UTC))
	require.Equal(t, revision.Keep, p.Revision.Change)
	for _, s := range p.Steps {
		require.Equal(t, rollout.StepMarkReady, s.Kind, "%s: %s", s.Pod.Key, s.Why)
	}
	got, events := status(o, p, applied{}, now)
	require.Empty(t, events)
	old := o.set.Status
	require.Equal(t, old.Replicas, got.Replicas)
	require.Equal(t, old.ReadyReplicas, got.ReadyReplicas)
	require.Equal(t, old.UpdatedReplicas, got.UpdatedReplicas)
	require.Equal(t, old.UpdateRevision, got.UpdateRevision)
	require.Equal(t, old.CurrentRevision, got.CurrentRevision)
	require.Equal(t, old.ExpectedUpdatedReplicas, got.ExpectedUpdatedReplicas)
}

func TestObjectsAreOwnedWhateverTheVersionOfTheirReference(t *testing.T) {
	t.Parallel()
	set := leftBehind(t).set
	for _, tt := range []struct {
		name   string
		change func(*metav1.OwnerReference)
		want   bool
	}{
		{"the owner in the stored version", func(*metav1.OwnerReference) {}, true},
		{"the owner in v1alpha1, as OpenKruise before 1.9 wrote it", func(r *metav1.OwnerReference) { r.APIVersion = "apps.kruise.io/v1alpha1" }, true},
		{"an owner with another UID", func(r *metav1.OwnerReference) { r.UID = "another" }, false},
		{"an owner of another kind", func(r *metav1.OwnerReference) { r.Kind = "StatefulSet" }, false},
		{"an owner in another group", func(r *metav1.OwnerReference) { r.APIVersion = "apps/v1" }, false},
		{"an owner that is not the controller", func(r *metav1.OwnerReference) { r.Controller = nil }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pod := leftBehind(t).pods[0]
			tt.change(&pod.OwnerReferences[0])
			require.Equal(t, tt.want, ownership.ControlledBy(pod, set, Kind()))
		})
	}
}
