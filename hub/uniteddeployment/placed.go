package uniteddeployment

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// indexByCluster adds the index that placedIn needs.
func indexByCluster(ctx context.Context, i client.FieldIndexer) error {
	return placement.IndexByCluster(ctx, i, &appsv1beta1.UnitedDeployment{}, func(o client.Object) []placement.Where {
		return subsetsOf(o.(*appsv1beta1.UnitedDeployment))
	})
}

// subsetsOf returns where the subsets of an object are; nil has none.
func subsetsOf(ud *appsv1beta1.UnitedDeployment) []placement.Where {
	if ud == nil {
		return nil
	}
	out := make([]placement.Where, 0, len(ud.Spec.Topology.Subsets))
	for _, s := range ud.Spec.Topology.Subsets {
		out = append(out, placement.Where{Cluster: s.Cluster, Selector: s.ClusterSelector})
	}
	return out
}

// placedIn is a placement.Placed.
func (r *reconciler) placedIn(ctx context.Context, cluster string, sets ...map[string]string) ([]client.ObjectKey, error) {
	all, err := placement.In(ctx, r, func() client.ObjectList { return &appsv1beta1.UnitedDeploymentList{} }, func(o client.Object) []placement.Where {
		return subsetsOf(o.(*appsv1beta1.UnitedDeployment))
	}, cluster, sets...)
	out := make([]client.ObjectKey, 0, len(all))
	for _, o := range all {
		out = append(out, client.ObjectKeyFromObject(o))
	}
	return out, err
}
