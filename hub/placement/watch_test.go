package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// recorded is a queue that stores what is added.
type recorded struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added map[reconcile.Request]time.Duration
}

func (r *recorded) AddAfter(req reconcile.Request, after time.Duration) { r.added[req] = after }

func TestRowHandler(t *testing.T) {
	t.Parallel()
	web := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web"}}
	for _, tt := range []struct {
		name   string
		change func(after *fleetv1alpha1.MemberWork)
		want   map[reconcile.Request]time.Duration
	}{
		{"a resync is ignored", func(*fleetv1alpha1.MemberWork) {}, nil},
		{"counts are collected", func(r *fleetv1alpha1.MemberWork) { r.ResourceVersion, r.Status.Counts.Ready = "2", 3 }, map[reconcile.Request]time.Duration{web: gather}},
		{"an acknowledgement is reported at once", func(r *fleetv1alpha1.MemberWork) { r.ResourceVersion, r.Status.ObservedGeneration = "2", 2 }, map[reconcile.Request]time.Duration{web: 0}},
		{"a phase is reported at once", func(r *fleetv1alpha1.MemberWork) { r.ResourceVersion, r.Status.Phase = "2", fleetv1alpha1.WorkBlocked }, map[reconcile.Request]time.Duration{web: 0}},
		{"a new generation is reported at once", func(r *fleetv1alpha1.MemberWork) { r.ResourceVersion, r.Generation = "2", 4 }, map[reconcile.Request]time.Duration{web: 0}},
		{"rows of other kinds are ignored", func(r *fleetv1alpha1.MemberWork) {
			r.ResourceVersion, r.Generation, r.Spec.Source.Kind = "2", 4, "Other"
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := held("east")
			before.ResourceVersion = "1"
			after := before.DeepCopy()
			tt.change(after)
			q := &recorded{added: map[reconcile.Request]time.Duration{}}
			RowHandler("Kind").Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
			if tt.want == nil {
				tt.want = map[reconcile.Request]time.Duration{}
			}
			require.Equal(t, tt.want, q.added)
		})
	}
	q := &recorded{added: map[reconcile.Request]time.Duration{}}
	RowHandler("Kind").Delete(t.Context(), event.DeleteEvent{Object: held("east")}, q)
	require.Equal(t, map[reconcile.Request]time.Duration{web: 0}, q.added)
}

func TestChangesOfAClusterThatCanChangeAPlan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(mc *fleetv1alpha1.MemberCluster)
		want   bool
	}{
		{"counts and heartbeats change no plan", func(mc *fleetv1alpha1.MemberCluster) {
			mc.ResourceVersion, mc.Status.KubernetesVersion = "2", "v1.36.0"
			mc.Status.Conditions = append(mc.Status.Conditions, condition(fleetv1alpha1.ConditionAPIHealthy, metav1.ConditionTrue))
		}, false},
		{"a cluster becomes unreachable", func(mc *fleetv1alpha1.MemberCluster) { mc.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		{"the phase of a cluster changes", func(mc *fleetv1alpha1.MemberCluster) { mc.Status.Phase = fleetv1alpha1.ClusterUnreachable }, false},
		{"a cluster has to join again", func(mc *fleetv1alpha1.MemberCluster) { mc.Status.Phase = fleetv1alpha1.ClusterJoining }, true},
		{"a cluster starts to leave", func(mc *fleetv1alpha1.MemberCluster) { mc.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }, true},
		{"the labels of a cluster change", func(mc *fleetv1alpha1.MemberCluster) { mc.Labels = nil }, true},
		{"the acceptance of a cluster changes", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false }, true},
		{"the limits of a cluster change", func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Limits = &fleetv1alpha1.ClusterLimits{MaxReplicasPerObject: new(int32(3))}
		}, true},
		{"another part of its spec changes", func(mc *fleetv1alpha1.MemberCluster) { mc.Generation, mc.Spec.Zone = 2, "b" }, false},
		{"withdrawals are paused", func(mc *fleetv1alpha1.MemberCluster) {
			mc.Annotations = map[string]string{keys.FleetWithdrawalsPaused: "too many"}
		}, true},
		{"the epoch is raised", func(mc *fleetv1alpha1.MemberCluster) { mc.Status.Hub.Epoch++ }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := member("east")
			after := before.DeepCopy()
			tt.change(after)
			require.Equal(t, tt.want, changed(before, after))
		})
	}
	skewed := member("east")
	skewed.Status.Conditions[0].Status = metav1.ConditionFalse
	again := skewed.DeepCopy()
	again.Status.Conditions = append(again.Status.Conditions, condition(fleetv1alpha1.ConditionSkewSupported, metav1.ConditionFalse))
	require.True(t, changed(skewed, again), "the reason why a cluster is not ready changes")
}
