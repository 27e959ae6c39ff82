package daemonset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// Defaults of the spec, as OpenKruise sets them.
const (
	defaultBurst          = 250
	defaultHistoryLimit   = 10
	defaultMaxUnavailable = 1
)

// hashLength is the maximum length of the hash in the name of a revision.
const hashLength = 10

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Webhook defaults DaemonSets and validates what neither schema nor CEL can. Objects of both versions arrive as v1beta1. It is safe for
// concurrent use.
type Webhook struct {
	// Client creates pod templates with dry runs.
	Client client.Client
	// Off lists the gates that are off, for warnings.
	Off workloadspec.Off

	templates workloadspec.PodTemplates
}

var (
	_ admission.Defaulter[*appsv1beta1.DaemonSet] = &Webhook{}
	_ admission.Validator[*appsv1beta1.DaemonSet] = &Webhook{}
)

func kind() string { return "DaemonSet" }

// Default sets defaults, but none in the pod template, as in OpenKruise. A template that is equivalent to the stored one keeps its stored
// form.
func (w *Webhook) Default(ctx context.Context, set *appsv1beta1.DaemonSet) error {
	setDefaults(&set.Spec)
	old, err := admit.Old[appsv1beta1.DaemonSet](ctx)
	if err != nil || old == nil {
		return err
	}
	done, faults, err := w.templates.Complete(ctx, w.Client, admit.Namespace(ctx, set), workloadspec.Templates{Pod: &old.Spec.Template},
		workloadspec.Templates{Pod: &set.Spec.Template}, workloadspec.NoDefaults, field.NewPath("spec", "template"))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return refuse(set, faults)
	}
	set.Spec.Template = *done.Pod
	return nil
}

func setDefaults(s *appsv1beta1.DaemonSetSpec) {
	if s.BurstReplicas == nil {
		s.BurstReplicas = new(intstr.FromInt32(defaultBurst))
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(defaultHistoryLimit))
	}
	u := &s.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1beta1.DaemonSetRollingUpdate
	}
	if u.Type != appsv1beta1.DaemonSetRollingUpdate {
		return
	}
	if u.RollingUpdate == nil {
		u.RollingUpdate = &appsv1beta1.DaemonSetRollingUpdateStrategy{}
	}
	r := u.RollingUpdate
	if r.Type == "" {
		r.Type = appsv1beta1.DaemonSetStandard
	}
	if r.MaxSurge == nil {
		r.MaxSurge = new(intstr.FromInt32(0))
	}
	if r.MaxUnavailable == nil {
		r.MaxUnavailable = new(intstr.FromInt32(defaultMaxUnavailable))
		if allowsSurge(r) {
			*r.MaxUnavailable = intstr.FromInt32(0)
		}
	}
}

// allowsSurge reports whether a second pod may be created on a node.
func allowsSurge(r *appsv1beta1.DaemonSetRollingUpdateStrategy) bool {
	const many = 100
	n, err := rollout.Resolve(r.MaxSurge, many, rollout.Up)
	return err == nil && n > 0
}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, set *appsv1beta1.DaemonSet) (admission.Warnings, error) {
	faults, err := w.checkTemplate(ctx, set)
	if err != nil {
		return nil, err
	}
	return w.warnings(set), refuse(set, append(validateSpec(set), faults...))
}

// ValidateUpdate implements admission.Validator. Faults that the old spec already had are only warnings.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, set *appsv1beta1.DaemonSet) (admission.Warnings, error) {
	news := admit.NewWarnings(w.warnings(set), w.warnings(old))
	if apiequality.Semantic.DeepEqual(old.Spec, set.Spec) {
		return news, nil // Annotations may have changed.
	}
	faults, warned := admit.Ratchet(validateSpec(set), validateSpec(old))
	if !apiequality.Semantic.DeepEqual(old.Spec.Template, set.Spec.Template) {
		more, err := w.checkTemplate(ctx, set)
		if err != nil {
			return nil, err
		}
		faults = append(faults, more...)
	}
	return append(warned, news...), refuse(set, faults)
}

// ValidateDelete implements admission.Validator; nothing is refused.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.DaemonSet) (admission.Warnings, error) {
	return nil, nil
}

// checkTemplate validates the pod template with a dry run.
func (w *Webhook) checkTemplate(ctx context.Context, set *appsv1beta1.DaemonSet) (field.ErrorList, error) {
	_, faults, err := w.templates.Check(ctx, w.Client, admit.Namespace(ctx, set), &set.Spec.Template, nil, field.NewPath("spec", "template"))
	return faults, err
}

// validateSpec validates the spec on its own.
func validateSpec(set *appsv1beta1.DaemonSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")
	var faults field.ErrorList
	if longest := len(set.Name) + 1 + hashLength; longest > validation.DNS1123SubdomainMaxLength {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), set.Name, fmt.Sprintf(
			"the names of its revisions would have %d characters, but at most %d are allowed: use a shorter name",
			longest, validation.DNS1123SubdomainMaxLength)))
	}
	faults = append(faults, workloadspec.Selector(spec.Selector, &spec.Template, path)...)
	faults = append(faults, workloadspec.PodSpec(&spec.Template.Spec, kind(), path.Child("template", "spec"))...)
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && r.Selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(r.Selector); err != nil {
			faults = append(faults, field.Invalid(path.Child("updateStrategy", "rollingUpdate", "selector"),
				metav1.FormatLabelSelector(r.Selector), fmt.Sprintf("%v: it selects nodes by their labels", err)))
		}
	}
	return faults
}

// warnings returns warnings about fields that don't have the effect a user may expect.
func (w *Webhook) warnings(set *appsv1beta1.DaemonSet) admission.Warnings {
	spec := &set.Spec
	out := workloadspec.Unserved(&set.ObjectMeta, &spec.Template, nil, w.Off, nil)
	if v, ok := set.Annotations[keys.DaemonSetProgressiveCreate]; ok && v != "false" {
		out = append(out, fmt.Sprintf(`annotation %s: %q has no effect: write "true" in v1alpha1, or set spec.scaleStrategy.partitionedScaling in v1beta1`,
			keys.DaemonSetProgressiveCreate, v))
	}
	if spec.Lifecycle != nil && spec.Lifecycle.PreNormal != nil {
		out = append(out, "spec.lifecycle.preNormal has no effect on a DaemonSet: its pods are Normal once they are ready")
	}
	r := spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return out
	}
	if spec.UpdateStrategy.Type == appsv1beta1.DaemonSetOnDelete {
		return append(out, "spec.updateStrategy.rollingUpdate has no effect with type OnDelete: pods are updated when a user deletes them")
	}
	if port := nodePort(&spec.Template.Spec); port != "" && allowsSurge(r) {
		out = append(out, fmt.Sprintf("spec.updateStrategy.rollingUpdate.maxSurge: %s uses a port of the node, "+
			"so a second pod can't start beside the first and no pod would be updated: use maxUnavailable", port))
	}
	return out
}

// nodePort returns the name of a container that uses a port of its node; empty if none does.
func nodePort(pod *corev1.PodSpec) string {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return pod.HostNetwork || p.HostPort != 0 }) {
			return "container " + c.Name
		}
	}
	return ""
}

func refuse(set *appsv1beta1.DaemonSet, faults field.ErrorList) error {
	return admit.Invalid(appsv1beta1.GroupVersion.WithKind(kind()), set.Name, faults)
}
