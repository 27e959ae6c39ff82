package placement

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// gather is how long status changes of rows are collected before a reconcile, so that a rollout in many members causes few writes of the
// object's status.
const gather = time.Second

// RowHandler enqueues the objects of a kind that own rows. Changes that affect a plan are enqueued immediately, and other changes to a row's
// status after a second.
func RowHandler(kind string) handler.EventHandler {
	return RowHandlerFor(kind, func(_ context.Context, key client.ObjectKey) (client.ObjectKey, bool) { return key, true })
}

// RowHandlerFor is like RowHandler, but for a controller whose requests are not the sources of rows. request returns what to enqueue for a
// source, and whether to enqueue it.
func RowHandlerFor(kind string, request func(context.Context, client.ObjectKey) (client.ObjectKey, bool)) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, q queue, o client.Object, after time.Duration) {
		source := o.(*fleetv1alpha1.MemberWork).Spec.Source
		if source.Kind != kind {
			return
		}
		if key, ok := request(ctx, client.ObjectKey{Namespace: source.Namespace, Name: source.Name}); ok {
			q.AddAfter(reconcile.Request{NamespacedName: key}, after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, e.Object, 0) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object, 0) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*fleetv1alpha1.MemberWork), e.ObjectNew.(*fleetv1alpha1.MemberWork)
			switch {
			case before.ResourceVersion == after.ResourceVersion:
			case before.Generation != after.Generation, Acknowledged(before) != Acknowledged(after), before.Status.Phase != after.Status.Phase:
				add(ctx, q, after, 0)
			default:
				add(ctx, q, after, gather)
			}
		},
	}
}

// Placed returns the keys of the objects of a kind that are placed in a cluster by its name, or by one of these sets of its labels.
type Placed func(ctx context.Context, cluster string, sets ...map[string]string) ([]client.ObjectKey, error)

// ClusterHandler enqueues the objects of a kind that a change of a MemberCluster concerns. These are the objects with a row there, which it
// reads from cache, and the objects that the old or the new state of the cluster selects. Changes that no plan depends on, such as heartbeats
// and counts, enqueue nothing. Neither do the clusters that exist when the controller starts: it enqueues all of its objects then, and
// reconciles none before it has all clusters.
//
// The caches of objects and rows may be behind the cache of clusters. An object or a row that they don't show yet is enqueued by its own
// watch once they do, and is then reconciled with the current state of the cluster.
func ClusterHandler(kind string, cache client.Reader, placed Placed) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, q queue, cluster string, sets ...map[string]string) {
		concerned, err := placed(ctx, cluster, sets...)
		rows := &fleetv1alpha1.MemberWorkList{}
		if err == nil {
			err = cache.List(ctx, rows, client.InNamespace(fleetv1alpha1.Namespace(cluster)), client.UnsafeDisableDeepCopy)
		}
		if err != nil { // Only before the cache has started, or when the manager stops.
			ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue objects for a member cluster", "cluster", cluster)
			return
		}
		for i := range rows.Items {
			if source := rows.Items[i].Spec.Source; source.Kind == kind {
				concerned = append(concerned, client.ObjectKey{Namespace: source.Namespace, Name: source.Name})
			}
		}
		for _, key := range concerned {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				add(ctx, q, e.Object.GetName(), e.Object.GetLabels())
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			add(ctx, q, e.Object.GetName(), e.Object.GetLabels())
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if before, after := e.ObjectOld.(*fleetv1alpha1.MemberCluster), e.ObjectNew.(*fleetv1alpha1.MemberCluster); changed(before, after) {
				add(ctx, q, after.Name, before.Labels, after.Labels)
			}
		},
	}
}

// changed reports whether an update of a MemberCluster can change a plan.
func changed(before, after *fleetv1alpha1.MemberCluster) bool {
	return factsOf(before) != factsOf(after) || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Spec.Limits, after.Spec.Limits) || !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!equality.Semantic.DeepEqual(before.Status.Kinds, after.Status.Kinds)
}

// facts are what plans and their withdrawals depend on in a MemberCluster, besides its limits, taints, labels and kinds.
type facts struct {
	leaving, accepted, joined, prepared bool
	// paused are the namespaces whose withdrawals are paused.
	paused string
	// unready says why the cluster is not ready. It is empty if the cluster is ready.
	unready string
	epoch   int64
}

func factsOf(c *fleetv1alpha1.MemberCluster) facts {
	f := facts{
		leaving: !c.DeletionTimestamp.IsZero(), accepted: c.Spec.Accepted, joined: joined(c), prepared: c.Status.Hub != nil,
		paused: c.Annotations[keys.FleetWithdrawalsPaused],
	}
	if !ready(c) {
		f.unready, _ = unready(c)
	}
	if c.Status.Hub != nil {
		f.epoch = c.Status.Hub.Epoch
	}
	return f
}
