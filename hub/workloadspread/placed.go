package workloadspread

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// indexByCluster adds the index that placedIn needs.
func indexByCluster(ctx context.Context, i client.FieldIndexer) error {
	return placement.IndexByCluster(ctx, i, &appsv1beta1.WorkloadSpread{}, subsetsOf)
}

// subsetsOf returns where the subsets of a WorkloadSpread are placed.
func subsetsOf(o client.Object) []placement.Where {
	subsets := o.(*appsv1beta1.WorkloadSpread).Spec.Subsets
	out := make([]placement.Where, 0, len(subsets))
	for _, s := range subsets {
		out = append(out, placement.Where{Cluster: s.Cluster, Selector: s.ClusterSelector})
	}
	return out
}

// targetOf returns the workload of a WorkloadSpread, and whether it has the kind of this controller.
func (r *reconciler) targetOf(ws *appsv1beta1.WorkloadSpread) (client.ObjectKey, bool) {
	ref := scaletarget.SpreadTarget(ws)
	return ref.NamespacedName, ref.Kind.GroupKind() == r.kind.gvk.GroupKind()
}

// forSpread enqueues the workload of a WorkloadSpread.
func (r *reconciler) forSpread(_ context.Context, o client.Object) []reconcile.Request {
	if key, ok := r.targetOf(o.(*appsv1beta1.WorkloadSpread)); ok {
		return []reconcile.Request{{NamespacedName: key}}
	}
	return nil
}

// ofSlice returns the workload of the WorkloadSpread that owns a slice.
func (r *reconciler) ofSlice(ctx context.Context, key client.ObjectKey) (client.ObjectKey, bool) {
	ws := &appsv1beta1.WorkloadSpread{}
	if err := r.spreads.Get(ctx, key, ws); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue the workload of a slice", "workloadspread", key)
		}
		return key, false // It is reconciled through its own events.
	}
	return r.targetOf(ws)
}

// placedIn implements placement.Placed.
func (r *reconciler) placedIn(ctx context.Context, cluster string, sets ...map[string]string) ([]client.ObjectKey, error) {
	all, err := placement.In(ctx, r.spreads, func() client.ObjectList { return &appsv1beta1.WorkloadSpreadList{} }, subsetsOf, cluster, sets...)
	var out []client.ObjectKey
	for _, o := range all {
		if key, ok := r.targetOf(o.(*appsv1beta1.WorkloadSpread)); ok {
			out = append(out, key)
		}
	}
	return out, err
}
