package placement

import (
	"context"
	"maps"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// gather is for how long status changes of rows are collected before a reconcile, so that a rollout in many members causes
// few writes of the object's status.
const gather = time.Second

// RowHandler enqueues the objects of that kind that rows come from. What changes a plan is enqueued at once; other changes of
// a row's status after a second.
func RowHandler(kind string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, o client.Object, after time.Duration) {
		if source := o.(*fleetv1alpha1.MemberWork).Spec.Source; source.Kind == kind {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: source.Namespace, Name: source.Name}}, after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object, 0) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object, 0) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*fleetv1alpha1.MemberWork), e.ObjectNew.(*fleetv1alpha1.MemberWork)
			switch {
			case before.ResourceVersion == after.ResourceVersion:
			case before.Generation != after.Generation, Acknowledged(before) != Acknowledged(after), before.Status.Phase != after.Status.Phase:
				add(q, after, 0)
			default:
				add(q, after, gather)
			}
		},
	}
}

// ClusterChanged reports whether an update of a MemberCluster can change a plan. Heartbeats and counts can't.
func ClusterChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*fleetv1alpha1.MemberCluster), e.ObjectNew.(*fleetv1alpha1.MemberCluster)
	return factsOf(before) != factsOf(after) || !maps.Equal(before.Labels, after.Labels) || before.Generation != after.Generation
}

// facts are what plans read of a MemberCluster besides its spec and labels.
type facts struct {
	leaving, prepared bool
	// paused are the namespaces whose withdrawals are paused.
	paused string
	phase  fleetv1alpha1.ClusterPhase
	// unready is why the cluster is not ready; empty if it is.
	unready string
	epoch   int64
}

func factsOf(c *fleetv1alpha1.MemberCluster) facts {
	f := facts{leaving: !c.DeletionTimestamp.IsZero(), phase: c.Status.Phase, prepared: c.Status.Hub != nil}
	f.paused = c.Annotations[keys.FleetWithdrawalsPaused]
	if !ready(c) {
		f.unready, _ = unready(c)
	}
	if c.Status.Hub != nil {
		f.epoch = c.Status.Hub.Epoch
	}
	return f
}
