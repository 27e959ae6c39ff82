package placement

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// Where is where a subset is placed: in a cluster, or in the clusters that a selector matches.
type Where struct {
	Cluster  string
	Selector *metav1.LabelSelector
}

const (
	// clusterIndex is the field index of objects by the clusters that their subsets name. Objects with a selector are indexed under anyCluster,
	// which is not a valid cluster name.
	clusterIndex = "flotilla.cluster"
	anyCluster   = "*"
)

// IndexByCluster adds the index that In needs for objects of the same kind as o. whereOf returns where the subsets of an object are placed.
func IndexByCluster(ctx context.Context, i client.FieldIndexer, o client.Object, whereOf func(client.Object) []Where) error {
	return ownership.AddIndex(ctx, i, "objects by cluster", o, clusterIndex, func(o client.Object) []string { return indexed(whereOf(o)) })
}

func indexed(all []Where) []string {
	var names []string
	for _, w := range all {
		name := w.Cluster
		if w.Selector != nil {
			name = anyCluster
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// In returns the objects that have a subset in a cluster, or a selector that matches one of the sets of labels. It reads them into the list
// that empty returns, from a cache with the index of IndexByCluster. The objects belong to the cache and must not be changed.
func In(
	ctx context.Context, r client.Reader, empty func() client.ObjectList, whereOf func(client.Object) []Where, cluster string,
	sets ...map[string]string,
) ([]client.Object, error) {
	var out []client.Object
	for _, name := range []string{cluster, anyCluster} {
		list := empty()
		if err := r.List(ctx, list, client.MatchingFields{clusterIndex: name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list objects of cluster %s: %w", name, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if o, ok := item.(client.Object); ok && (name == cluster || matchesAny(whereOf(o), sets)) {
				out = append(out, o)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read objects of cluster %s: %w", name, err)
		}
	}
	return out, nil
}

// Matches reports whether an object with this Where is placed in a cluster.
func (w Where) Matches(mc *fleetv1alpha1.MemberCluster) bool {
	return w.Cluster == mc.Name || matchesAny([]Where{w}, []map[string]string{mc.Labels})
}

func matchesAny(all []Where, sets []map[string]string) bool {
	return slices.ContainsFunc(all, func(w Where) bool {
		selector, err := metav1.LabelSelectorAsSelector(w.Selector) // A nil selector matches nothing.
		return err == nil && slices.ContainsFunc(sets, func(set map[string]string) bool { return selector.Matches(labels.Set(set)) })
	})
}
