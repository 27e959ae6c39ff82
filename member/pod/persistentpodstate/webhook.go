package persistentpodstate

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// maxWeight is the highest weight of a preferred node affinity, as in Kubernetes 1.36.
const maxWeight = 100

// Webhook validates what neither the schema nor CEL can. Objects of both API versions arrive as v1beta1. It is safe for concurrent use.
type Webhook struct {
	// Client reads from the cache.
	Client client.Reader
	// Namespace is the manager's own namespace, which holds the ConfigMap of further kinds.
	Namespace string
	// Exempt lists the namespaces whose pods are not sent to the pod webhook.
	Exempt []string
}

var _ admission.Validator[*appsv1beta1.PersistentPodState] = &Webhook{}

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(ctx context.Context, pps *appsv1beta1.PersistentPodState) (admission.Warnings, error) {
	faults := validate(&pps.Spec)
	if len(faults) == 0 {
		more, err := w.validateTarget(ctx, pps)
		if err != nil {
			return nil, err
		}
		faults = more
	}
	return w.warnings(ctx, pps), admit.Invalid(gvk(), pps.Name, faults)
}

// ValidateUpdate validates a change. A fault that the old object already has is only a warning, since the object may be older than the rule.
// The target is immutable.
func (w *Webhook) ValidateUpdate(_ context.Context, old, pps *appsv1beta1.PersistentPodState) (admission.Warnings, error) {
	fresh, warnings := admit.Ratchet(validate(&pps.Spec), validate(&old.Spec))
	return warnings, admit.Invalid(gvk(), pps.Name, fresh)
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.PersistentPodState) (admission.Warnings, error) {
	return nil, nil
}

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

// warnings returns warnings about settings that have no effect.
func (w *Webhook) warnings(ctx context.Context, pps *appsv1beta1.PersistentPodState) admission.Warnings {
	if ns := admit.Namespace(ctx, pps); slices.Contains(w.Exempt, ns) {
		return admission.Warnings{fmt.Sprintf("metadata.namespace: pods in %s are exempt from the pod webhook (podWebhook.exemptNamespaces "+
			"of the chart): none is recorded or restored", ns)}
	}
	return nil
}

// validateTarget validates the target of a new object against the whitelist and other PersistentPodStates.
func (w *Webhook) validateTarget(ctx context.Context, pps *appsv1beta1.PersistentPodState) (field.ErrorList, error) {
	path, ref := field.NewPath("spec", "targetRef"), refOf(pps)
	ref.Namespace = admit.Namespace(ctx, pps)
	if kind := ref.Kind.GroupKind(); !builtIn(kind) {
		listed, err := scaletarget.WhiteList(ctx, w.Client, w.Namespace, scaletarget.KeyPersistentPodState)
		if err != nil {
			return nil, err
		}
		if !allowed(kind, listed) {
			return field.ErrorList{field.Invalid(path.Child("kind"), ref.Kind.Kind, notListed(ref))}, nil
		}
	}
	all, err := statesWithTarget(ctx, w.Client, ref)
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if other.Name != pps.Name {
			return field.ErrorList{field.Invalid(path, ref.String(), fmt.Sprintf(
				"it is already the target of %s, and a workload can have only one: delete that one, or change its spec", other.Name))}, nil
		}
	}
	return nil, nil
}

// validate validates a spec on its own.
func validate(s *appsv1beta1.PersistentPodStateSpec) field.ErrorList {
	path := field.NewPath("spec")
	var faults field.ErrorList
	if _, err := schema.ParseGroupVersion(s.TargetRef.APIVersion); err != nil || s.TargetRef.APIVersion == "" {
		faults = append(faults, field.Invalid(path.Child("targetRef", "apiVersion"), s.TargetRef.APIVersion,
			"must be a group and version, such as apps/v1"))
	}
	if s.TargetRef.Kind == "" {
		faults = append(faults, field.Required(path.Child("targetRef", "kind"), "name the kind of the workload, such as StatefulSet"))
	}
	if s.TargetRef.Name == "" {
		faults = append(faults, field.Required(path.Child("targetRef", "name"), "name the workload"))
	}
	for i, p := range s.PreferredPersistentTopology {
		if p.Weight < 1 || p.Weight > maxWeight {
			faults = append(faults, field.Invalid(path.Child("preferredPersistentTopology").Index(i).Child("weight"), p.Weight,
				fmt.Sprintf("must be a weight from 1 to %d", maxWeight)))
		}
	}
	return append(faults, validateKeys(s, path)...)
}

// validateKeys validates the keys of labels and annotations.
func validateKeys(s *appsv1beta1.PersistentPodStateSpec, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	term := func(t *appsv1beta1.NodeTopologyTerm, at *field.Path) {
		if len(t.Keys) == 0 {
			faults = append(faults, field.Required(at, "name at least one node label, such as kubernetes.io/hostname"))
		}
		faults = append(faults, validateUnique(t.Keys, func(i int) *field.Path { return at.Index(i) })...)
	}
	if t := s.RequiredPersistentTopology; t != nil {
		term(t, path.Child("requiredPersistentTopology", "keys"))
	}
	for i := range s.PreferredPersistentTopology {
		term(&s.PreferredPersistentTopology[i].Preference, path.Child("preferredPersistentTopology").Index(i).Child("preference", "keys"))
	}
	at := path.Child("persistentPodAnnotations")
	return append(faults, validateUnique(annotationKeys(s), func(i int) *field.Path { return at.Index(i).Child("key") })...)
}

// validateUnique validates keys. Each may occur only once.
func validateUnique(list []string, at func(int) *field.Path) field.ErrorList {
	var faults field.ErrorList
	for i, key := range list {
		for _, why := range content.IsLabelKey(key) {
			faults = append(faults, field.Invalid(at(i), key, why))
		}
		if slices.Contains(list[:i], key) {
			faults = append(faults, field.Duplicate(at(i), key))
		}
	}
	return faults
}
