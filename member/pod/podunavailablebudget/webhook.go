package podunavailablebudget

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// Webhook validates what neither the schema nor CEL can. Objects of both API versions arrive as v1beta1. It is safe for concurrent use.
type Webhook struct {
	// Client reads from the cache.
	Client client.Reader
	// Exempt lists the namespaces whose pods are not sent to the pod webhook.
	Exempt []string
	// Webhook, Delete and Update are the feature gates that enable judging requests.
	Webhook, Delete, Update bool
}

var _ admission.Validator[*policyv1beta1.PodUnavailableBudget] = &Webhook{}

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	if !w.Webhook || !w.Delete && !w.Update {
		return nil, admit.Invalid(gvk(), b.Name, field.ErrorList{field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
			"nothing would be protected: enable feature gate %s, and %s for deletions and evictions or %s for updates and resizes",
			feature.PodWebhook, feature.PodUnavailableBudgetDelete, feature.PodUnavailableBudgetUpdate))})
	}
	faults := validate(b)
	if len(faults) == 0 {
		conflicts, err := w.validateOthers(ctx, b)
		if err != nil {
			return nil, err
		}
		faults = conflicts
	}
	return w.warnings(ctx, b), admit.Invalid(gvk(), b.Name, faults)
}

// ValidateUpdate validates a change. A fault that the old object already has is only a warning, since the object may be older than the rule.
// The fields that select the pods are immutable.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, b *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	fresh, warnings := admit.Ratchet(validate(b), validate(old))
	return append(warnings, admit.NewWarnings(w.warnings(ctx, b), w.warnings(ctx, old))...), admit.Invalid(gvk(), b.Name, fresh)
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	return nil, nil
}

func gvk() schema.GroupVersionKind { return policyv1beta1.GroupVersion.WithKind(kind) }

// warnings returns warnings about settings that have no effect.
func (w *Webhook) warnings(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) admission.Warnings {
	var out admission.Warnings
	if ns := admit.Namespace(ctx, b); slices.Contains(w.Exempt, ns) {
		out = append(out, fmt.Sprintf("metadata.namespace: requests for pods in %s are not sent to the webhook (podWebhook.exemptNamespaces of "+
			"the chart): none is checked", ns))
	}
	for i, o := range b.Spec.ProtectOperations {
		gate, on := feature.PodUnavailableBudgetDelete, w.Delete
		if o == policyv1beta1.Update || o == policyv1beta1.Resize {
			gate, on = feature.PodUnavailableBudgetUpdate, w.Update
		}
		if !on {
			out = append(out, fmt.Sprintf("spec.protectOperations[%d]: %s is not checked while feature gate %s is off", i, o, gate))
		}
	}
	return out
}

// validateOthers validates a new object against the other budgets in its namespace.
func (w *Webhook) validateOthers(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) (field.ErrorList, error) {
	var list policyv1beta1.PodUnavailableBudgetList
	if err := w.Client.List(ctx, &list, client.InNamespace(admit.Namespace(ctx, b)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets: %w", err)
	}
	path := field.NewPath("spec")
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == b.Name || other.DeletionTimestamp != nil {
			continue
		}
		mine, byRef := refOf(b)
		theirs, alsoByRef := refOf(other)
		theirs.Namespace = mine.Namespace
		switch {
		case byRef && alsoByRef && mine.Same(theirs):
			return field.ErrorList{field.Invalid(path.Child("targetRef"), mine.String(), fmt.Sprintf(
				"it is already the target of %s, and a pod can have only one budget: delete that one, or change its spec", other.Name))}, nil
		case !byRef && !alsoByRef && ownership.Overlapping(b.Spec.Selector, other.Spec.Selector):
			return field.ErrorList{field.Invalid(path.Child("selector"), metav1.FormatLabelSelector(b.Spec.Selector), fmt.Sprintf(
				"a pod could also be selected by %s (%s), and a pod can have only one budget: add a label that distinguishes the two",
				other.Name, metav1.FormatLabelSelector(other.Spec.Selector)))}, nil
		}
	}
	return nil, nil
}

// validate validates an object on its own.
func validate(b *policyv1beta1.PodUnavailableBudget) field.ErrorList {
	path, s := field.NewPath("spec"), &b.Spec
	var faults field.ErrorList
	if s.Selector != nil {
		faults = append(faults, validateSelector(s.Selector, path.Child("selector"))...)
	}
	if s.IgnoredPodSelector != nil {
		faults = append(faults, validateSelector(s.IgnoredPodSelector, path.Child("ignoredPodSelector"))...)
	}
	if t := s.TargetRef; t != nil {
		at := path.Child("targetRef")
		if _, err := schema.ParseGroupVersion(t.APIVersion); err != nil || t.APIVersion == "" {
			faults = append(faults, field.Invalid(at.Child("apiVersion"), t.APIVersion, "must be a group and version, such as apps/v1"))
		}
		if t.Kind == "" {
			faults = append(faults, field.Required(at.Child("kind"), "name the kind of the workload, such as Deployment"))
		}
		if t.Name == "" {
			faults = append(faults, field.Required(at.Child("name"), "name the workload"))
		}
	}
	faults = append(faults, validateNumber(s.MaxUnavailable, path.Child("maxUnavailable"))...)
	faults = append(faults, validateNumber(s.MinAvailable, path.Child("minAvailable"))...)
	return append(faults, validateAnnotations(b)...)
}

// validateSelector validates a selector. An empty one would select every pod.
func validateSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(path, "it would select every pod in the namespace: name a label that the pods have")}
	}
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

// validateNumber validates a number of pods, or a percentage of at most 100%.
func validateNumber(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	const want = "must be a number of pods, 0 or more, or a percentage from 0% to 100%"
	if n, err := rollout.Resolve(v, 100, rollout.Up); err != nil || v != nil && v.Type == intstr.String && n > 100 {
		return field.ErrorList{field.Invalid(path, v.String(), want)}
	}
	return nil
}

// validateAnnotations rejects annotations that stand for fields in v1alpha1. The conversion has already removed those that it understands.
func validateAnnotations(b *policyv1beta1.PodUnavailableBudget) field.ErrorList {
	var faults field.ErrorList
	at := field.NewPath("metadata", "annotations")
	if text := b.Annotations[keys.ProtectOperations]; text != "" && len(b.Spec.ProtectOperations) == 0 {
		faults = append(faults, field.Invalid(at.Key(keys.ProtectOperations), text,
			"must be DELETE, EVICT, UPDATE and RESIZE, separated by commas, in a v1alpha1 object; in v1beta1, set spec.protectOperations"))
	}
	if text := b.Annotations[keys.ProtectTotalReplicas]; text != "" && b.Spec.ProtectTotalReplicas == nil {
		faults = append(faults, field.Invalid(at.Key(keys.ProtectTotalReplicas), text,
			"must be 1 or more, in a v1alpha1 object; in v1beta1, set spec.protectTotalReplicas"))
	}
	return faults
}
