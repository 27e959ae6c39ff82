package uniteddeployment

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// +kubebuilder:rbac:groups=fleet.kruise.io,resources=propagations,verbs=get;list;watch;create;update;delete

// dependenciesSuffix is the suffix of the name of the Propagation that places what the pods of an object need.
const dependenciesSuffix = "-dependencies"

// reasonConflict means that another object has the name.
const reasonConflict = "Conflict"

// dependencies maintains that Propagation. The Propagation names the clusters that have, or get, a slice of the object. Package propagation
// does the rest.
type dependencies struct{ placement.Client }

// watchDependencies enqueues the owner of a Propagation when somebody else changes or deletes the Propagation.
func watchDependencies(b *builder.Builder) *builder.Builder {
	return b.Owns(&fleetv1alpha1.Propagation{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
}

// serves returns the clusters that have a slice of the object, or get one according to the plan.
func (p planned) serves(o *observed) []string {
	clusters := map[string]bool{}
	for _, want := range p.Wants {
		clusters[want.Cluster] = true
	}
	for cluster := range o.Rows {
		clusters[cluster] = true
	}
	return slices.Sorted(maps.Keys(clusters))
}

// specOf returns the spec of the Propagation for an object with that name. It tolerates all taints of these clusters, since the object deals
// with them: what its pods need stays as long as they do.
func specOf(name string, clusters []string) fleetv1alpha1.PropagationSpec {
	return fleetv1alpha1.PropagationSpec{
		Selectors: []fleetv1alpha1.PropagationSelector{{
			APIVersion: appsv1beta1.GroupVersion.String(), Kind: sourceKind, Name: name,
		}},
		Dependencies:   fleetv1alpha1.DependenciesOnly,
		Clusters:       fleetv1alpha1.PropagationClusters{Names: clusters},
		Tolerations:    []fleetv1alpha1.ClusterToleration{{Operator: fleetv1alpha1.TolerationExists}},
		DeletionPolicy: fleetv1alpha1.LeaveDelete,
	}
}

func propagationOf(ud *appsv1beta1.UnitedDeployment, clusters []string) *fleetv1alpha1.Propagation {
	owner := ownership.ControllerRef(ud, appsv1beta1.GroupVersion.WithKind(sourceKind))
	return &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ud.Namespace, Name: ud.Name + dependenciesSuffix, OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: specOf(ud.Name, clusters),
	}
}

// apply creates, changes or deletes the Propagation of an object. While the object is being deleted, the Propagation stays as it is, so that
// the pods' dependencies outlive the pods. It returns a problem if somebody else's Propagation has the name.
func (d dependencies) apply(ctx context.Context, ud *appsv1beta1.UnitedDeployment, clusters []string) ([]placement.Problem, error) {
	key := client.ObjectKey{Namespace: ud.Namespace, Name: ud.Name + dependenciesSuffix}
	live := &fleetv1alpha1.Propagation{}
	there, err := ownership.Get(ctx, d.Client, key, live)
	if err != nil {
		return nil, err //nolint:wrapcheck // It says what was read.
	}
	wanted := ud.Spec.Topology.Dependencies == appsv1beta1.SubsetDependenciesAuto && len(clusters) > 0
	mine := there && metav1.IsControlledBy(live, ud)
	switch {
	case !ud.DeletionTimestamp.IsZero():
		return nil, nil
	case !wanted && mine, wanted && there && !mine && isOf(live, ud.Name): // The second case is a Propagation of an earlier object with the same name.
		return nil, d.remove(ctx, live)
	case !wanted:
		return nil, nil
	case there && !mine:
		return conflictWith(live), nil
	case there:
		return nil, d.update(ctx, live, clusters)
	}
	err = d.Create(ctx, propagationOf(ud, clusters))
	if apierrors.IsAlreadyExists(err) { // The cache is behind, and no event of somebody else's Propagation would enqueue the object.
		if there, err = ownership.Get(ctx, d.Live, key, live); err != nil || there && metav1.IsControlledBy(live, ud) {
			return nil, err //nolint:wrapcheck // As above.
		}
		return conflictWith(live), nil
	}
	if err != nil {
		return nil, fmt.Errorf("create Propagation %s: %w", key.Name, err)
	}
	return nil, nil
}

// conflictWith returns the problem of a Propagation that doesn't belong to the object.
func conflictWith(p *fleetv1alpha1.Propagation) []placement.Problem {
	return []placement.Problem{{Reason: reasonConflict, Message: fmt.Sprintf("Propagation %s does not belong to this object, so what its pods need is "+
		"not placed: delete it, or set spec.topology.dependencies: Off", p.Name)}}
}

// update updates the clusters of a Propagation, and reverts changes by other clients.
func (d dependencies) update(ctx context.Context, live *fleetv1alpha1.Propagation, clusters []string) error {
	next := live.DeepCopy()
	next.Spec = specOf(metav1.GetControllerOf(live).Name, clusters)
	if !live.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(live.Spec, next.Spec) { // Its deletion enqueues the object.
		return nil
	}
	if err := d.Update(ctx, next); err != nil && !ownership.Passed(err) {
		return fmt.Errorf("update Propagation %s: %w", live.Name, err)
	}
	return nil
}

// withdraw deletes the Propagation of an object that is gone, because a hub may have no garbage collector.
func (d dependencies) withdraw(ctx context.Context, owner client.ObjectKey) error {
	live := &fleetv1alpha1.Propagation{}
	there, err := ownership.Get(ctx, d.Client, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name + dependenciesSuffix}, live)
	if err != nil || !there || !isOf(live, owner.Name) {
		return err //nolint:wrapcheck // It says what was read.
	}
	ud := &appsv1beta1.UnitedDeployment{}
	there, err = ownership.Get(ctx, d.Live, owner, ud)
	if err != nil || there && metav1.IsControlledBy(live, ud) {
		return err //nolint:wrapcheck // As above.
	}
	return d.remove(ctx, live)
}

// isOf reports whether a Propagation belongs to a UnitedDeployment with that name.
func isOf(p *fleetv1alpha1.Propagation, name string) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Name == name && ownership.RefersTo(owner, appsv1beta1.GroupVersion.WithKind(sourceKind))
}

// remove deletes a Propagation if it has not changed since it was read.
func (d dependencies) remove(ctx context.Context, live *fleetv1alpha1.Propagation) error {
	if !live.DeletionTimestamp.IsZero() {
		return nil
	}
	err := d.Delete(ctx, live, client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
	if err != nil && !ownership.Passed(err) {
		return fmt.Errorf("delete Propagation %s: %w", live.Name, err)
	}
	return nil
}
