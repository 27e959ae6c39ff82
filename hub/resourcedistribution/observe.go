package resourcedistribution

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// observed is what a reconcile has read. It points into the cache and must not be changed.
type observed struct {
	placement.Fleet

	rd *appsv1beta1.ResourceDistribution
	// occupied are the clusters with a row of the object and a taint that evicts, which still run something that the hub placed.
	occupied map[string]bool
	// localMember is true if this cluster runs the member stack too.
	localMember bool
	// closed are namespaces that a slice excludes unless the object names them.
	closed []string
}

// Source returns the object.
func (o *observed) Source() client.Object { return o.rd }

func observe(ctx context.Context, c placement.Client, key client.ObjectKey, options Options) (*observed, error) {
	o := &observed{
		rd: &appsv1beta1.ResourceDistribution{}, occupied: map[string]bool{},
		localMember: options.LocalMember, closed: options.ClosedNamespaces,
	}
	var err error
	if o.Fleet, err = c.Fleet(ctx, key, o.rd); err != nil {
		return nil, err
	}
	o.Kinds = []schema.GroupKind{appsv1beta1.GroupVersion.WithKind(sourceKind).GroupKind()}
	for cluster := range o.Rows {
		if !o.evicts(cluster) {
			continue
		}
		rows := &fleetv1alpha1.MemberWorkList{}
		if err := c.List(ctx, rows, client.InNamespace(fleetv1alpha1.Namespace(cluster)), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list rows of cluster %s: %w", cluster, err)
		}
		for i := range rows.Items {
			o.occupied[cluster] = o.occupied[cluster] || occupies(&rows.Items[i])
		}
	}
	return o, nil
}

// evicts reports whether a cluster has a taint that evicts.
func (o *observed) evicts(cluster string) bool {
	t := o.Taint(cluster)
	return t != nil && t.Effect == fleetv1alpha1.Evict
}

// occupies reports whether the cluster of a row may run pods of it. Such pods may need copies.
func occupies(row *fleetv1alpha1.MemberWork) bool {
	return row.Spec.Source.Kind != sourceKind && (row.Spec.Grant.Replicas > 0 || row.Status.Counts.Replicas > 0)
}
