package resourcedistribution

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// where returns where an object is distributed; nil means nowhere. It includes excluded clusters.
func where(rd *appsv1beta1.ResourceDistribution) []placement.Where {
	if rd == nil || rd.Spec.Targets.Clusters == nil {
		return nil
	}
	return placement.Selected(*rd.Spec.Targets.Clusters).Where()
}

// emptied enqueues the objects with a row in a cluster that evicts, when a row of another kind there no longer has pods.
func emptied(r client.Reader) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, q queue, row client.Object) {
		cluster := row.GetLabels()[keys.FleetCluster]
		mc := &fleetv1alpha1.MemberCluster{}
		err := client.IgnoreNotFound(r.Get(ctx, client.ObjectKey{Name: cluster}, mc))
		o := observed{Fleet: placement.Fleet{Clusters: map[string]*fleetv1alpha1.MemberCluster{cluster: mc}}}
		rows := &fleetv1alpha1.MemberWorkList{}
		if err == nil && o.evicts(cluster) {
			err = r.List(ctx, rows, client.InNamespace(row.GetNamespace()), client.UnsafeDisableDeepCopy)
		}
		if err != nil { // Only before the cache has started, or when the manager stops.
			ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue objects for a row", "cluster", cluster)
			return
		}
		for i := range rows.Items {
			if source := rows.Items[i].Spec.Source; source.Kind == sourceKind {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: source.Name}})
			}
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if occupies(e.ObjectOld.(*fleetv1alpha1.MemberWork)) && !occupies(e.ObjectNew.(*fleetv1alpha1.MemberWork)) {
				add(ctx, q, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if occupies(e.Object.(*fleetv1alpha1.MemberWork)) {
				add(ctx, q, e.Object)
			}
		},
	}
}
