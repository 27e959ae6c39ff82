package united

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// Webhook admits UnitedDeployments. Objects of both versions arrive as v1beta1. It may be used concurrently.
type Webhook struct {
	// Client validates pod templates by dry runs; it needs the verb create on podtemplates.
	Client client.Client
	// Options are the validation options.
	Options Options
	// KeepTemplates leaves pod and PVC templates of StatefulSets without defaults (gate TemplateNoDefaults). They are validated nevertheless.
	KeepTemplates bool

	templates workloadspec.PodTemplates
}

var (
	_ admission.Defaulter[*appsv1beta1.UnitedDeployment] = &Webhook{}
	_ admission.Validator[*appsv1beta1.UnitedDeployment] = &Webhook{}
)

// Default sets defaults. Like OpenKruise, it sets the defaults of the pod and PVC templates only for native StatefulSets. In all templates, what
// means the same as in the stored template keeps its stored form. Templates of a slice stay as the hub sent them: the revision's name is a hash
// of their bytes and must be the same in every cluster, whatever its Kubernetes version. New invalid numbers are already rejected here, because
// the later error from the schema would only show its pattern.
func (w *Webhook) Default(ctx context.Context, ud *appsv1beta1.UnitedDeployment) error {
	Default(ud)
	old, err := admit.Old[appsv1beta1.UnitedDeployment](ctx)
	if err != nil {
		return err
	}
	if old != nil {
		Default(old) // It may be older than a default.
	}
	if old == nil || !apiequality.Semantic.DeepEqual(old.Spec.Topology, ud.Spec.Topology) {
		if faults := invalidNumbers(ud, field.NewPath("spec", "topology")); len(faults) > 0 {
			return Invalid(ud, faults)
		}
	}
	t, ok := TemplateOf(&ud.Spec.Template)
	if !ok || Slice(ud) {
		return nil
	}
	var stored workloadspec.Templates
	if old != nil {
		if before, ok := TemplateOf(&old.Spec.Template); ok && before.Field == t.Field {
			stored = before.Templates
			keepStrategy(old.Spec.Template.CloneSetTemplate, ud.Spec.Template.CloneSetTemplate)
		}
	}
	mode := workloadspec.NoDefaults
	if ud.Spec.Template.StatefulSetTemplate != nil && !w.KeepTemplates {
		mode = workloadspec.AllDefaults
	}
	done, faults, err := w.templates.Complete(ctx, w.Client, admit.Namespace(ctx, ud), stored, t.Templates, mode,
		field.NewPath("spec", "template", t.Field, "spec", "template"))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return Invalid(ud, faults)
	}
	*t.Pod = *done.Pod
	copy(t.PVCs, done.PVCs)
	return nil
}

// keepStrategy keeps the stored form of the update strategy in a CloneSet template if both mean the same: a v1alpha1 manifest is stored with a
// type and a policy that a v1beta1 manifest may leave out.
func keepStrategy(stored, given *appsv1beta1.CloneSetTemplateSpec) {
	if stored == nil || given == nil {
		return
	}
	if apiequality.Semantic.DeepEqual(fullStrategy(stored), fullStrategy(given)) {
		given.Spec.UpdateStrategy = *stored.Spec.UpdateStrategy.DeepCopy()
	}
}

func fullStrategy(t *appsv1beta1.CloneSetTemplateSpec) *appsv1beta1.CloneSetUpdateStrategy {
	s := t.Spec.UpdateStrategy.DeepCopy()
	if s.Type == "" {
		s.Type = appsv1beta1.CloneSetRollingUpdate
	}
	if s.Type != appsv1beta1.CloneSetRollingUpdate {
		return s
	}
	if s.RollingUpdate == nil {
		s.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{}
	}
	if s.RollingUpdate.PodUpdatePolicy == "" {
		s.RollingUpdate.PodUpdatePolicy = appsv1beta1.PodReCreate
	}
	return s
}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	faults := Validate(ud, w.Options)
	if len(faults) == 0 {
		var err error
		if faults, err = w.checkPods(ctx, nil, ud); err != nil {
			return nil, err
		}
	}
	if len(faults) > 0 {
		return nil, Invalid(ud, faults)
	}
	return warnings(ud, w.Options), nil
}

// ValidateUpdate implements admission.Validator. Faults that the old spec has as well become warnings. An update that doesn't change the spec
// has no faults, so that labels and finalizers can always be changed.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	if apiequality.Semantic.DeepEqual(old.Spec, ud.Spec) {
		return nil, nil
	}
	faults, older := ValidateUpdate(old, ud, w.Options)
	if len(faults) == 0 {
		var err error
		if faults, err = w.checkPods(ctx, old, ud); err != nil {
			return nil, err
		}
	}
	if len(faults) > 0 {
		return older, Invalid(ud, faults)
	}
	return append(older, admit.NewWarnings(warnings(ud, w.Options), warnings(old, w.Options))...), nil
}

// warnings returns the warnings for an object. A slice gets none, because no user would see them.
func warnings(ud *appsv1beta1.UnitedDeployment, o Options) admission.Warnings {
	if Slice(ud) {
		return nil
	}
	path := field.NewPath("spec")
	out := unserved(ud, path, o)
	if t := ud.Spec.Template.AdvancedStatefulSetTemplate; t != nil && o.StatefulSetWarnings != nil {
		out = append(out, o.StatefulSetWarnings(&t.Spec, path.Child("template", "advancedStatefulSetTemplate", "spec"))...)
	}
	out = append(out, partitionWarnings(ud, path.Child("updateStrategy", "manualUpdate", "partitions"))...)
	return append(out, unlimitedWarnings(ud, path.Child("updateStrategy", "manualUpdate", "maxUnavailable"))...)
}

// unlimitedWarnings returns warnings about a maxUnavailable of a subset that has no effect, or less than it says.
func unlimitedWarnings(ud *appsv1beta1.UnitedDeployment, path *field.Path) admission.Warnings {
	if ud.Spec.UpdateStrategy.ManualUpdate == nil {
		return nil
	}
	var out admission.Warnings
	t := &ud.Spec.Template
	for i := range ud.Spec.Topology.Subsets {
		name := ud.Spec.Topology.Subsets[i].Name
		n, ok := ud.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable[name]
		switch d, s := t.DeploymentTemplate, t.AdvancedStatefulSetTemplate; {
		case !ok:
		case onDelete(t):
			out = append(out, fmt.Sprintf("%s: has no effect: %s", path.Key(name), whyOnDelete))
		case n > 0 && d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
			out = append(out, fmt.Sprintf("%s: has no effect: with the template's strategy Recreate, all pods are replaced at once: "+
				"use RollingUpdate, or 0 to stop the update", path.Key(name)))
		case n > 1 && s != nil && s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement:
			out = append(out, fmt.Sprintf("%s: one pod is updated at a time, because %d requires podManagementPolicy Parallel in the template",
				path.Key(name), n))
		}
	}
	return out
}

// partitionWarnings returns warnings about partitions that have no effect, or that affect more than intended on a StatefulSet of apps.kruise.io.
func partitionWarnings(ud *appsv1beta1.UnitedDeployment, path *field.Path) admission.Warnings {
	if ud.Spec.UpdateStrategy.ManualUpdate == nil {
		return nil
	}
	var out admission.Warnings
	why, total := Unpartitioned(&ud.Spec.Template), int(ptr.Deref(ud.Spec.Replicas, DefaultReplicas))
	for i := range ud.Spec.Topology.Subsets {
		s := &ud.Spec.Topology.Subsets[i]
		partition := int(ud.Spec.UpdateStrategy.ManualUpdate.Partitions[s.Name])
		n := readNumber(s.Replicas, total, nil, &field.ErrorList{}) // Already validated.
		switch {
		case partition > 0 && why != "":
			out = append(out, fmt.Sprintf("%s: has no effect: %s", path.Key(s.Name), why))
		case n > 0 && partition > n && ud.Spec.Template.AdvancedStatefulSetTemplate != nil:
			out = append(out, fmt.Sprintf("%s: %d is greater than the replicas of the subset (%d): none of its pods will be updated until it is lower",
				path.Key(s.Name), partition, n))
		}
	}
	return out
}

// unserved returns warnings about features of OpenKruise that are not served yet but requested by the template or by a subset's patch, and about
// settings of a strategy that is not in use.
func unserved(ud *appsv1beta1.UnitedDeployment, path *field.Path, o Options) admission.Warnings {
	t, ok := TemplateOf(&ud.Spec.Template)
	if !ok {
		return nil
	}
	at := path.Child("template", t.Field)
	off := o.Off
	off.Other = ud.Spec.Template.CloneSetTemplate == nil && ud.Spec.Template.AdvancedStatefulSetTemplate == nil
	var out admission.Warnings
	if s := &ud.Spec.Topology.ScheduleStrategy; s.Adaptive != nil && s.Type != appsv1beta1.ScheduleAdaptive {
		out = append(out, fmt.Sprintf("%s: has no effect with type Fixed: leave it out", path.Child("topology", "scheduleStrategy", "adaptive")))
	}
	out = append(out, workloadspec.Unserved(t.Metadata, t.Pod, inPlaceStrategy(&ud.Spec.Template), off, at)...)
	if value := t.Metadata.Labels[keys.DeleteProtection]; o.Unprotected && value != "" {
		out = append(out, fmt.Sprintf("%s: %s protects nothing: feature gate %s is off",
			at.Child("metadata", "labels").Key(keys.DeleteProtection), value, feature.ResourcesDeletionProtection))
	}
	for i := range ud.Spec.Topology.Subsets {
		s := &ud.Spec.Topology.Subsets[i]
		pod, err := PodTemplate(t.Pod, &appsv1beta1.Subset{Patch: s.Patch}, nil)
		if err != nil {
			continue // Reported as a fault.
		}
		patch := path.Child("topology", "subsets").Index(i).Child("patch")
		out = append(out, admit.NewWarnings(workloadspec.UnservedByPods(pod, off, patch), workloadspec.UnservedByPods(t.Pod, off, patch))...)
	}
	return out
}

// inPlaceStrategy returns the in-place strategy of the template; nil for Kubernetes kinds and where there is none.
func inPlaceStrategy(t *appsv1beta1.SubsetTemplate) *pods.InPlaceUpdateStrategy {
	switch {
	case t.CloneSetTemplate != nil && t.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate != nil:
		return t.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy
	case t.AdvancedStatefulSetTemplate != nil && t.AdvancedStatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate != nil:
		return t.AdvancedStatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy
	}
	return nil
}

// ValidateDelete implements admission.Validator; nothing is rejected.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	return nil, nil
}

// Invalid returns an API error with the faults; nil if there are none.
func Invalid(ud *appsv1beta1.UnitedDeployment, faults field.ErrorList) error {
	return admit.Invalid(appsv1beta1.GroupVersion.WithKind("UnitedDeployment"), ud.Name, faults)
}

// checkPods lets the API server validate the pods of the template and of each subset, as far as they are new or changed since old; old is nil on
// creation. It takes one request for the template, one for the node selector terms and tolerations of all new subsets, and one for each patch,
// unless two patches result in the same pods.
func (w *Webhook) checkPods(ctx context.Context, old, ud *appsv1beta1.UnitedDeployment) (field.ErrorList, error) {
	t, ok := TemplateOf(&ud.Spec.Template)
	if !ok {
		return nil, nil
	}
	changed := old == nil || templateChanged(old, ud)
	at := admit.Namespace(ctx, ud)
	if changed {
		path := field.NewPath("spec", "template", t.Field, "spec", "template")
		_, faults, err := w.templates.Check(ctx, w.Client, at, t.Pod, t.PVCs, path)
		if err != nil || len(faults) > 0 {
			return faults, err // Faults of the template would be repeated for each subset.
		}
	}
	faults, err := w.checkScheduling(ctx, at, old, ud)
	if err != nil {
		return nil, err
	}
	for i := range ud.Spec.Topology.Subsets {
		s, path := &ud.Spec.Topology.Subsets[i], field.NewPath("spec", "topology", "subsets").Index(i)
		oldSubset := subset(old, s.Name)
		if Patch(s) == "" || !changed && oldSubset != nil && Patch(oldSubset) == Patch(s) {
			continue
		}
		more, err := w.checkPatch(ctx, at, t.Templates, s, path.Child("patch"))
		if err == nil && len(more) > 0 && oldSubset != nil && Patch(oldSubset) == Patch(s) {
			// A patch that was already invalid only stops its own subset.
			var before field.ErrorList
			if stored, ok := TemplateOf(&old.Spec.Template); ok {
				before, err = w.checkPatch(ctx, at, stored.Templates, oldSubset, path.Child("patch"))
			}
			more, _ = admit.Ratchet(more, before)
		}
		if err != nil {
			return nil, err
		}
		faults = append(faults, more...)
	}
	return faults, nil
}

// checkPatch lets the API server validate the pods of a subset with a patch; path is the path of the patch.
func (w *Webhook) checkPatch(
	ctx context.Context, namespace string, t workloadspec.Templates, s *appsv1beta1.Subset, path *field.Path,
) (field.ErrorList, error) {
	pod, err := PodTemplate(t.Pod, &appsv1beta1.Subset{Name: s.Name, Patch: s.Patch}, nil)
	if err != nil {
		return field.ErrorList{field.Invalid(path, Patch(s), err.Error())}, nil
	}
	_, faults, err := w.templates.Check(ctx, w.Client, namespace, pod, t.PVCs, path)
	return faults, err
}

// checkScheduling lets the API server validate the terms and tolerations of all new subsets, in a pod that has nothing else. None of them can
// make another one invalid.
func (w *Webhook) checkScheduling(ctx context.Context, namespace string, old, ud *appsv1beta1.UnitedDeployment) (field.ErrorList, error) {
	const terms = "template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	pod := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "any"}}}}
	required, names := &corev1.NodeSelector{}, map[string]string{} // pod field to field in the object
	for i := range ud.Spec.Topology.Subsets {
		s, path := &ud.Spec.Topology.Subsets[i], field.NewPath("spec", "topology", "subsets").Index(i)
		if subset(old, s.Name) != nil {
			continue
		}
		if s.NodeSelectorTerm != nil && !empty(s.NodeSelectorTerm) {
			names[fmt.Sprintf("%s[%d]", terms, len(required.NodeSelectorTerms))] = path.Child("nodeSelectorTerm").String()
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, *s.NodeSelectorTerm)
		}
		for j := range s.Tolerations {
			names[fmt.Sprintf("template.spec.tolerations[%d]", len(pod.Spec.Tolerations))] = path.Child("tolerations").Index(j).String()
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, s.Tolerations[j])
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	if len(required.NodeSelectorTerms) > 0 {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	_, faults, err := w.templates.Check(ctx, w.Client, namespace, pod, nil, field.NewPath("template"))
	for _, f := range faults {
		at := field.NewPath("spec", "topology", "subsets").String()
		for from, to := range names { // Each ends with an index, so none is a prefix of another.
			if rest, ok := strings.CutPrefix(f.Field, from); ok {
				at = to + rest
			}
		}
		f.Field = at
	}
	return faults, err
}

func subset(ud *appsv1beta1.UnitedDeployment, name string) *appsv1beta1.Subset {
	if ud == nil {
		return nil
	}
	i := slices.IndexFunc(ud.Spec.Topology.Subsets, func(s appsv1beta1.Subset) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &ud.Spec.Topology.Subsets[i]
}

// templateChanged reports whether the template has to be validated again.
func templateChanged(old, ud *appsv1beta1.UnitedDeployment) bool {
	before, ok := TemplateOf(&old.Spec.Template)
	after, _ := TemplateOf(&ud.Spec.Template)
	return !ok || before.Field != after.Field || !before.Same(after.Templates)
}
