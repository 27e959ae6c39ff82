package united

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// Template is the template that is set in a SubsetTemplate, reduced to what all kinds of workload have. It points into the object.
type Template struct {
	// Field is the JSON name of the field, for example "cloneSetTemplate".
	Field string
	// Metadata holds the labels and annotations of the workload.
	Metadata *metav1.ObjectMeta
	// Selector is the workload's own selector, which the subset's selector replaces; nil if there is none.
	Selector *metav1.LabelSelector
	workloadspec.Templates
}

// TemplateOf returns the template of the subsets' workloads. If several are set it returns the first, if none is set false.
func TemplateOf(t *appsv1beta1.SubsetTemplate) (Template, bool) {
	switch {
	case t.CloneSetTemplate != nil:
		m := t.CloneSetTemplate
		return Template{
			"cloneSetTemplate", &m.ObjectMeta, m.Spec.Selector,
			workloadspec.Templates{Pod: &m.Spec.Template, PVCs: m.Spec.VolumeClaimTemplates},
		}, true
	case t.DeploymentTemplate != nil:
		m := t.DeploymentTemplate
		return Template{
			"deploymentTemplate", &m.ObjectMeta, m.Spec.Selector,
			workloadspec.Templates{Pod: &m.Spec.Template},
		}, true
	case t.StatefulSetTemplate != nil:
		m := t.StatefulSetTemplate
		return Template{
			"statefulSetTemplate", &m.ObjectMeta, m.Spec.Selector,
			workloadspec.Templates{Pod: &m.Spec.Template, PVCs: m.Spec.VolumeClaimTemplates},
		}, true
	case t.AdvancedStatefulSetTemplate != nil:
		m := t.AdvancedStatefulSetTemplate
		return Template{
			"advancedStatefulSetTemplate", &m.ObjectMeta, m.Spec.Selector,
			workloadspec.Templates{Pod: &m.Spec.Template, PVCs: m.Spec.VolumeClaimTemplates},
		}, true
	}
	return Template{}, false
}

// Unpartitioned returns why partitions have no effect on the workloads of a template; empty if they have.
func Unpartitioned(t *appsv1beta1.SubsetTemplate) string {
	switch {
	case t.DeploymentTemplate != nil:
		return "a Deployment can't keep pods at the old revision: remove it, or use cloneSetTemplate"
	case onDelete(t):
		return whyOnDelete
	}
	return ""
}

// whyOnDelete is why numbers for an update have no effect with OnDelete.
const whyOnDelete = "with the template's updateStrategy OnDelete, pods are only updated when they are deleted: remove it, or use RollingUpdate"

func onDelete(t *appsv1beta1.SubsetTemplate) bool {
	return t.CloneSetTemplate != nil && t.CloneSetTemplate.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete ||
		t.StatefulSetTemplate != nil && t.StatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType ||
		t.AdvancedStatefulSetTemplate != nil &&
			t.AdvancedStatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
}

// Patch returns a subset's patch as JSON; empty if there is none.
func Patch(s *appsv1beta1.Subset) string {
	if s.Patch == nil || bytes.Equal(bytes.TrimSpace(s.Patch.Raw), []byte("null")) {
		return ""
	}
	return string(s.Patch.Raw)
}

// PodTemplate returns base adapted for the pods of a subset: it adds the subset's node selector term and tolerations, then applies the patch,
// then sets the labels. Labels come last so that no patch can remove what the workload's selector needs. Neither base nor subset is changed. An
// error says why the patch doesn't apply; unknown fields are ignored here and rejected by Validate.
func PodTemplate(
	base *corev1.PodTemplateSpec, subset *appsv1beta1.Subset, labels map[string]string,
) (*corev1.PodTemplateSpec, error) {
	return podTemplate(base, subset, labels, false)
}

func podTemplate(
	base *corev1.PodTemplateSpec, subset *appsv1beta1.Subset, labels map[string]string, strict bool,
) (*corev1.PodTemplateSpec, error) {
	out := base.DeepCopy()
	addTerm(&out.Spec, subset.NodeSelectorTerm)
	for i := range subset.Tolerations {
		out.Spec.Tolerations = append(out.Spec.Tolerations, *subset.Tolerations[i].DeepCopy())
	}
	if patch := Patch(subset); patch != "" {
		patched, err := merge(out, []byte(patch), strict)
		if err != nil {
			return nil, fmt.Errorf("patch of subset %s: %w", subset.Name, err)
		}
		out = patched
	}
	if len(labels) > 0 && out.Labels == nil {
		out.Labels = map[string]string{}
	}
	maps.Copy(out.Labels, labels)
	return out, nil
}

// addTerm adds term to each required term: a node must satisfy both. Without terms, term becomes the only one. An existing empty term matches no
// node and stays as it is; an empty term of the subset requires nothing.
func addTerm(pod *corev1.PodSpec, term *corev1.NodeSelectorTerm) {
	if term == nil || empty(term) {
		return
	}
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.NodeAffinity == nil {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pod.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = []corev1.NodeSelectorTerm{*term.DeepCopy()}
		return
	}
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		if empty(t) {
			continue
		}
		more := term.DeepCopy()
		t.MatchExpressions = slices.Concat(t.MatchExpressions, more.MatchExpressions)
		t.MatchFields = slices.Concat(t.MatchFields, more.MatchFields)
	}
}

func empty(t *corev1.NodeSelectorTerm) bool { return len(t.MatchExpressions)+len(t.MatchFields) == 0 }

// merge applies a strategic merge patch. strict rejects unknown fields.
func merge(template *corev1.PodTemplateSpec, patch []byte, strict bool) (*corev1.PodTemplateSpec, error) {
	fields, err := podpatch.Merge(template, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, err //nolint:wrapcheck // It says what failed.
	}
	var out corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, &out, strict); err != nil {
		return nil, fmt.Errorf("decode merged pod template: %w", err)
	}
	return &out, nil
}
