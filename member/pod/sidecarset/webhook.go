package sidecarset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// Webhook sets defaults and validates what the schema can't. Objects of both API versions arrive as v1beta1. It is safe for concurrent use.
type Webhook struct {
	// Client reads from the cache and dry-runs pod templates.
	Client client.Client
	// Namespace is the manager's own namespace, which holds the whitelist and the revisions.
	Namespace string
	// AnyPatch allows SidecarSets that no whitelist rule selects to patch any annotation.
	AnyPatch bool
	// Exempt lists the namespaces whose pods are not sent to the pod webhook.
	Exempt []string
	// Off means that a feature gate disables SidecarSets.
	Off bool

	templates workloadspec.PodTemplates
}

var (
	_ admission.Defaulter[*appsv1beta1.SidecarSet] = &Webhook{}
	_ admission.Validator[*appsv1beta1.SidecarSet] = &Webhook{}
)

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(ctx context.Context, s *appsv1beta1.SidecarSet) (admission.Warnings, error) {
	faults, err := w.validate(ctx, s)
	if err != nil {
		return nil, err
	}
	return append(w.warnings(s), dubiousSettings(&s.Spec)...), admit.Invalid(gvk(), s.Name, faults)
}

// ValidateUpdate validates a change. A fault that the old object already has is only a warning, since the object may be older than the
// rule.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, s *appsv1beta1.SidecarSet) (admission.Warnings, error) {
	if s.DeletionTimestamp != nil || apiequality.Semantic.DeepEqual(old.Spec, s.Spec) && apiequality.Semantic.DeepEqual(old.Annotations, s.Annotations) {
		return nil, nil
	}
	faults, err := w.validate(ctx, s)
	if err != nil {
		return nil, err
	}
	var before field.ErrorList
	if len(faults) > 0 {
		if before, err = w.validate(ctx, old); err != nil {
			return nil, err
		}
	}
	fresh, warnings := admit.Ratchet(faults, before)
	warnings = append(warnings, admit.NewWarnings(dubiousSettings(&s.Spec), dubiousSettings(&old.Spec))...)
	return warnings, admit.Invalid(gvk(), s.Name, append(fresh, validateChange(old, s)...))
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.SidecarSet) (admission.Warnings, error) {
	return nil, nil
}

// warnings returns warnings about SidecarSets that add no sidecars, or that make the creation of pods in all namespaces depend on the manager.
func (w *Webhook) warnings(s *appsv1beta1.SidecarSet) admission.Warnings {
	var out admission.Warnings
	if w.Off {
		out = append(out, "no pod gets sidecars: enable the manager's feature gate PodWebhook")
	}
	if name, ok := singleNamespace(s); ok && slices.Contains(w.Exempt, name) {
		out = append(out, fmt.Sprintf("spec.namespaceSelector: pods in %s get no sidecars, because they are exempt from the pod webhook "+
			"(podWebhook.exemptNamespaces of the chart)", name))
	} else if !ok {
		out = append(out, "spec.namespaceSelector: pods that spec.selector selects can't be created in any namespace while no replica of the manager "+
			"answers, except in exempt ones (podWebhook.exemptNamespaces of the chart): exempt what the cluster needs to start, or select one namespace by "+
			corev1.LabelMetadataName+"; pods with hostNetwork or priority class system-node-critical get no sidecars")
	}
	return out
}

// validate validates an object on its own and against other objects.
func (w *Webhook) validate(ctx context.Context, s *appsv1beta1.SidecarSet) (field.ErrorList, error) {
	faults := validate(s)
	if len(faults) > 0 {
		return faults, nil
	}
	for _, check := range []func(context.Context, *appsv1beta1.SidecarSet) (field.ErrorList, error){
		w.validatePatchRules, w.validateRevision, w.validateBase, w.validateConflicts, w.validatePod,
	} {
		more, err := check(ctx, s)
		if err != nil {
			return nil, err
		}
		faults = append(faults, more...)
	}
	return faults, nil
}

func (w *Webhook) validatePatchRules(ctx context.Context, s *appsv1beta1.SidecarSet) (field.ErrorList, error) {
	if len(s.Spec.PatchPodMetadata) == 0 {
		return nil, nil
	}
	rules, err := readPatchRules(ctx, w.Client, w.Namespace)
	if err != nil || w.AnyPatch && !slices.ContainsFunc(rules, func(r rule) bool { return r.selects(s) }) {
		return nil, err
	}
	return validateAllowed(s, rules), nil
}

// validateRevision validates that the revision that injectionStrategy names exists.
func (w *Webhook) validateRevision(ctx context.Context, s *appsv1beta1.SidecarSet) (field.ErrorList, error) {
	r := s.Spec.InjectionStrategy.Revision
	if r == nil {
		return nil, nil
	}
	history, err := revisionsOf(ctx, w.Client, w.Namespace, s)
	if err != nil || findRevision(history, r) != nil {
		return nil, err
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "injectionStrategy", "revision"), describeRevision(r),
		fmt.Sprintf("SidecarSet %s has no such revision: kubectl get controllerrevisions -n %s -l %s=%s lists them",
			s.Name, w.Namespace, keys.SidecarSetName, s.Name))}, nil
}

// validateBase validates the SidecarSet that a canary replaces.
func (w *Webhook) validateBase(ctx context.Context, s *appsv1beta1.SidecarSet) (field.ErrorList, error) {
	name := baseOf(s)
	if name == "" {
		return nil, nil
	}
	at := field.NewPath("metadata", "annotations").Key(keys.SidecarSetBase)
	var base appsv1beta1.SidecarSet
	switch err := w.Client.Get(ctx, client.ObjectKey{Name: name}, &base); {
	case apierrors.IsNotFound(err):
		return field.ErrorList{field.NotFound(at, name)}, nil
	case err != nil:
		return nil, fmt.Errorf("get SidecarSet %s: %w", name, err)
	case baseOf(&base) != "":
		return field.ErrorList{field.Invalid(at, name, "it is itself a canary: name a SidecarSet that is not")}, nil
	}
	return nil, nil
}

func (w *Webhook) validateConflicts(ctx context.Context, s *appsv1beta1.SidecarSet) (field.ErrorList, error) {
	var others appsv1beta1.SidecarSetList
	if err := w.Client.List(ctx, &others, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list SidecarSets: %w", err)
	}
	return conflicts(s, others.Items), nil
}

// validatePod lets the apiserver validate a pod that has the sidecars.
func (w *Webhook) validatePod(ctx context.Context, s *appsv1beta1.SidecarSet) (field.ErrorList, error) {
	spec := s.Spec.DeepCopy()
	for _, list := range containerLists(spec) {
		for i := range list {
			c := &list[i]
			c.ResourcesPolicy = nil // Its values depend on the pod.
			if up := &c.UpgradeStrategy; isHot(c) && up.HotUpgradeEmptyImage == "" {
				up.HotUpgradeEmptyImage = c.Image // A warning covers the missing image.
			}
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: app, Image: app}}},
	}
	path := field.NewPath("spec")
	outcomes, err := inject(pod, []injection{{set: s, spec: spec}}, options{})
	if err != nil {
		return nil, err
	}
	if outcomes[0].skipped {
		return field.ErrorList{field.Invalid(path.Child("containers"), app, "this name is reserved for validation: use another")}, nil
	}
	pod.Spec.Volumes = s.Spec.Volumes
	template := &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	_, invalid, err := w.templates.Check(ctx, w.Client, w.Namespace, template, nil, field.NewPath("pod"))
	faults := make(field.ErrorList, 0, len(invalid))
	for _, f := range invalid {
		faults = append(faults, field.Invalid(path, s.Name, "it would make pods invalid: "+f.Error()))
	}
	return faults, err
}
