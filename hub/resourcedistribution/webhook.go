package resourcedistribution

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/admit"
)

// Webhook validates ResourceDistributions on a hub, with the rules of members and those for member clusters. It is safe for concurrent use.
type Webhook struct {
	// Rules are the rules of members. It is nil if a member's manager in this cluster validates too.
	Rules admission.Validator[*appsv1beta1.ResourceDistribution]
	// Clusters validates clusters.
	Clusters placement.ClusterRules
	// LocalMember is true if this cluster also runs the member stack.
	LocalMember bool
}

var _ admission.Validator[*appsv1beta1.ResourceDistribution] = &Webhook{}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, rd *appsv1beta1.ResourceDistribution) (warnings admission.Warnings, err error) {
	if w.Rules != nil {
		if warnings, err = w.Rules.ValidateCreate(ctx, rd); err != nil {
			return warnings, err //nolint:wrapcheck // It is an answer of the apiserver.
		}
	}
	more, err := w.validateClusters(ctx, nil, rd)
	return append(warnings, more...), err
}

// ValidateUpdate implements admission.Validator. It checks only clusters that the old object doesn't name.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, rd *appsv1beta1.ResourceDistribution) (warnings admission.Warnings, err error) {
	if w.Rules != nil {
		if warnings, err = w.Rules.ValidateUpdate(ctx, old, rd); err != nil {
			return warnings, err //nolint:wrapcheck // It is an answer of the apiserver.
		}
	}
	if apiequality.Semantic.DeepEqual(old.Spec, rd.Spec) {
		return warnings, nil
	}
	more, err := w.validateClusters(ctx, old, rd)
	return append(warnings, more...), err
}

// ValidateDelete implements admission.Validator.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.ResourceDistribution) (admission.Warnings, error) {
	return nil, nil
}

// validateClusters validates the clusters, and checks whether the user may use them.
func (w *Webhook) validateClusters(ctx context.Context, old, rd *appsv1beta1.ResourceDistribution) (admission.Warnings, error) {
	path, c := field.NewPath("spec", "targets", "clusters"), rd.Spec.Targets.Clusters
	if c == nil {
		if w.LocalMember {
			return nil, nil
		}
		return admission.Warnings{"spec.targets.clusters is not set, and this cluster runs no member stack, so nothing distributes this object: " +
			"create it again with that field"}, nil
	}
	clusters := placement.Selected(*c)
	if faults := clusters.Validate(path); len(faults) > 0 {
		return nil, admit.Invalid(appsv1beta1.GroupVersion.WithKind(sourceKind), rd.Name, faults)
	}
	faults, warnings, err := w.Clusters.ValidateAs(ctx, "", where(old), where(rd), placement.Words{
		At: clusters.At(path), Gets: "it gets its copies", Wait: "copies wait",
	})
	if err != nil {
		return nil, err
	}
	return warnings, admit.Invalid(appsv1beta1.GroupVersion.WithKind(sourceKind), rd.Name, faults)
}
