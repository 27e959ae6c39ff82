package uniteddeployment

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/ownership"
)

const (
	// clusterIndex is the field index of objects by the clusters that their subsets name; those with a clusterSelector are under
	// anyCluster, which is no cluster's name.
	clusterIndex = "flotilla.cluster"
	anyCluster   = "*"
)

// indexByCluster adds the index that placedIn needs.
func indexByCluster(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "objects by cluster", &appsv1beta1.UnitedDeployment{}, clusterIndex, clustersNamed)
}

func clustersNamed(o client.Object) []string {
	var names []string
	for _, s := range o.(*appsv1beta1.UnitedDeployment).Spec.Topology.Subsets {
		name := s.Cluster
		if s.ClusterSelector != nil {
			name = anyCluster
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// placedIn is a placement.Placed: it returns the objects that have a subset with that cluster, or whose selector matches one of the
// sets of labels.
func (r *reconciler) placedIn(ctx context.Context, cluster string, sets ...map[string]string) ([]client.ObjectKey, error) {
	var out []client.ObjectKey
	for _, name := range []string{cluster, anyCluster} {
		list := &appsv1beta1.UnitedDeploymentList{}
		if err := r.List(ctx, list, client.MatchingFields{clusterIndex: name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list objects of cluster %s: %w", name, err)
		}
		for i := range list.Items {
			if name == cluster || selectsAny(&list.Items[i], sets) {
				out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
			}
		}
	}
	return out, nil
}

func selectsAny(ud *appsv1beta1.UnitedDeployment, sets []map[string]string) bool {
	return slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1beta1.Subset) bool {
		selector, err := metav1.LabelSelectorAsSelector(s.ClusterSelector) // Nil matches nothing.
		return err == nil && slices.ContainsFunc(sets, func(set map[string]string) bool { return selector.Matches(labels.Set(set)) })
	})
}
