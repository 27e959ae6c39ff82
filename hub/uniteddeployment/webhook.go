package uniteddeployment

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Webhook validates UnitedDeployments on a hub, with the rules of package united and those for member clusters. It is safe for concurrent
// use.
type Webhook struct {
	united.Webhook
	// Clusters validates the clusters of subsets.
	Clusters placement.ClusterRules
	// LocalMember is true if this cluster also runs the member stack.
	LocalMember bool
	// RefusesDependencies checks whether the user of the request may have the dependencies of pods in a namespace placed. It returns why not,
	// or "".
	RefusesDependencies func(ctx context.Context, namespace string) (string, error)
}

var (
	_ admission.Defaulter[*appsv1beta1.UnitedDeployment] = &Webhook{}
	_ admission.Validator[*appsv1beta1.UnitedDeployment] = &Webhook{}
)

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	warnings, err := w.Webhook.ValidateCreate(ctx, ud)
	if err != nil {
		return warnings, err
	}
	more, err := w.validateClusters(ctx, nil, ud)
	return append(warnings, more...), err
}

// ValidateUpdate implements admission.Validator. It checks only clusters that the old object doesn't name, because a cluster that has left
// the fleet must not block a scale.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	warnings, err := w.Webhook.ValidateUpdate(ctx, old, ud)
	if err != nil || apiequality.Semantic.DeepEqual(old.Spec, ud.Spec) {
		return warnings, err
	}
	if faults := w.validateSwitch(old, ud); len(faults) > 0 {
		return warnings, united.Invalid(ud, faults)
	}
	more, err := w.validateClusters(ctx, old, ud)
	return append(warnings, more...), err
}

// validateSwitch refuses to move an object from the member stack of this cluster to clusters of the fleet, or back, because no controller
// would own what already runs.
func (w *Webhook) validateSwitch(old, ud *appsv1beta1.UnitedDeployment) field.ErrorList {
	if !w.LocalMember || united.Federated(old) == united.Federated(ud) {
		return nil
	}
	why := "this cluster itself runs the object: name no clusters in the subsets"
	if united.Federated(old) {
		why = "member clusters run the object: keep cluster or clusterSelector in each subset"
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "topology", "subsets"),
		why+", or apply the new form under another name and delete this one once it runs")}
}

// validateClusters refuses clusters that the user may not use, and warns about clusters that don't exist or are not ready, since objects and
// clusters may be applied in any order. A selector may match any cluster, including clusters that join later, so it needs permission to use
// all of them.
func (w *Webhook) validateClusters(ctx context.Context, old, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	if !united.Federated(ud) {
		if w.LocalMember {
			return nil, nil
		}
		return admission.Warnings{"no subset names a cluster, and this cluster runs no member stack, so nothing runs this object: " +
			"give each subset cluster or clusterSelector"}, nil
	}
	faults, warnings, err := w.Clusters.Validate(ctx, ud.Namespace, subsetsOf(old), subsetsOf(ud), field.NewPath("spec", "topology", "subsets"))
	if err != nil {
		return nil, err
	}
	why, err := w.refusesDependencies(ctx, old, ud)
	if err != nil {
		return nil, err
	}
	if why != nil {
		faults = append(faults, why)
	}
	if len(faults) > 0 {
		return nil, united.Invalid(ud, faults)
	}
	more, err := w.warnOfWaves(ctx, ud)
	return append(warnings, more...), err
}

// warnOfWaves warns about waves that no cluster belongs to now. More clusters may join, or get other labels.
func (w *Webhook) warnOfWaves(ctx context.Context, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	plan := rolloutPlan(ud)
	if !united.Waves(ud) || len(plan.Waves) == 0 {
		return nil, nil
	}
	var list fleetv1alpha1.MemberClusterList
	if err := w.Clusters.Cache.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list member clusters: %w", err)
	}
	used, of := make([]bool, len(plan.Waves)+1), newMatcher(plan.Waves)
	for i := range list.Items {
		mc := &list.Items[i]
		var subsets []string
		for j, where := range subsetsOf(ud) {
			if where.Matches(mc) {
				subsets = append(subsets, ud.Spec.Topology.Subsets[j].Name)
			}
		}
		if len(subsets) > 0 {
			used[of.wave(mc.Name, mc.Labels, subsets)] = true
		}
	}
	var out admission.Warnings
	for i, wave := range plan.Waves {
		if !used[i] {
			out = append(out, fmt.Sprintf("spec.updateStrategy.rollout.waves[%d]: no member cluster belongs to wave %s now, because none of those that the "+
				"subsets select matches it, or an earlier wave matches it too; its gates still hold up the next wave", i, wave.Name))
		}
	}
	return out, nil
}

// refusesDependencies refuses dependencies that are new, or are placed in more clusters, unless the user may have any of them placed. The
// check is needed because the hub writes the Propagation on the user's behalf.
func (w *Webhook) refusesDependencies(ctx context.Context, old, ud *appsv1beta1.UnitedDeployment) (*field.Error, error) {
	auto := func(ud *appsv1beta1.UnitedDeployment) bool {
		return ud != nil && ud.Spec.Topology.Dependencies == appsv1beta1.SubsetDependenciesAuto
	}
	if !auto(ud) || auto(old) && apiequality.Semantic.DeepEqual(subsetsOf(old), subsetsOf(ud)) {
		return nil, nil
	}
	at := field.NewPath("spec", "topology", "dependencies")
	if name := ud.Name + dependenciesSuffix; len(name) > validation.DNS1123SubdomainMaxLength {
		return field.Invalid(at, ud.Spec.Topology.Dependencies, "the name of the Propagation "+name+" would be too long: give the object a shorter name"), nil
	}
	why, err := w.RefusesDependencies(ctx, ud.Namespace)
	if err != nil || why == "" {
		return nil, err
	}
	return field.Forbidden(at, why), nil
}
