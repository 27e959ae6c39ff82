package workloadspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// MaxPercent is the largest percentage of most amounts.
const MaxPercent = 100

// CloneSetMaxUnavailable is the default maxUnavailable of a CloneSet. Source: OpenKruise.
const CloneSetMaxUnavailable = "20%"

// Selector validates the selector of the spec at path, which must match the labels of the template.
func Selector(s *metav1.LabelSelector, template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	at := path.Child("selector")
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(at, "an empty selector would select every pod: use labels of the template")}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(s), err.Error())}
	}
	if !selector.Matches(labels.Set(template.Labels)) {
		return field.ErrorList{field.Invalid(path.Child("template", "metadata", "labels"), template.Labels,
			fmt.Sprintf("the selector %q doesn't match these labels: add the labels that it requires", selector))}
	}
	return nil
}

// PodSpec validates the pods of a kind whose pods run indefinitely; path is the path of the pod's spec.
func PodSpec(pod *corev1.PodSpec, kind string, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyAlways {
		faults = append(faults, field.NotSupported(path.Child("restartPolicy"), pod.RestartPolicy,
			[]corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if pod.ActiveDeadlineSeconds != nil {
		faults = append(faults, field.Forbidden(path.Child("activeDeadlineSeconds"),
			fmt.Sprintf("pods of a %s run indefinitely: leave it out", kind)))
	}
	return faults
}

// JobPodSpec is PodSpec for pods that run to completion.
func JobPodSpec(pod *corev1.PodSpec, kind string, path *field.Path) field.ErrorList {
	at, ways := path.Child("restartPolicy"), []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}
	switch {
	case pod.RestartPolicy == "":
		return field.ErrorList{field.Required(at, fmt.Sprintf(
			"pods of a %s run to completion and can't use the default Always: set Never or OnFailure", kind))}
	case !slices.Contains(ways, pod.RestartPolicy):
		return field.ErrorList{field.NotSupported(at, pod.RestartPolicy, ways)}
	}
	return nil
}

// IntOrPercent resolves a number or a percentage of total pods, rounded up, and validates it: most is the largest allowed percentage; 0 means no
// limit. Nil is 0.
func IntOrPercent(v *intstr.IntOrString, total, most int, at *field.Path) (int, field.ErrorList) {
	n, err := rollout.Resolve(v, total, rollout.Up)
	if err != nil {
		return n, field.ErrorList{field.Invalid(at, v.String(), `must be a number of pods, 0 or more, or a percentage such as "20%"`)}
	}
	if percent, _ := rollout.Resolve(v, MaxPercent, rollout.Up); most > 0 && v != nil && v.Type == intstr.String && percent > most {
		return n, field.ErrorList{field.Invalid(at, v.String(), fmt.Sprintf("must be at most %d%%", most))}
	}
	return n, nil
}

// UpdateOrder validates priorityStrategy and scatterStrategy below path, as far as the schema can't.
func UpdateOrder(priority *pods.UpdatePriorityStrategy, scatter []pods.UpdateScatterTerm, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if priority != nil {
		for i := range priority.WeightPriority {
			at, s := path.Child("priorityStrategy", "weightPriority").Index(i).Child("matchSelector"), &priority.WeightPriority[i].MatchSelector
			if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
				faults = append(faults, field.Invalid(at, "{}", "an empty selector gives every pod the same weight: use labels of the pods that it is for"))
			} else if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
				faults = append(faults, field.Invalid(at, metav1.FormatLabelSelector(s), err.Error()))
			}
		}
	}
	for i, t := range scatter {
		if slices.Contains(scatter[:i], t) {
			faults = append(faults, field.Invalid(path.Child("scatterStrategy").Index(i), t.Key+"="+t.Value, "is listed already: list it once"))
		}
	}
	return faults
}

// InPlaceOnly rejects a template at path that podUpdatePolicy InPlaceOnly could never apply to pods of the old template.
func InPlaceOnly(old, template *corev1.PodTemplateSpec, may inplace.Options, path *field.Path) field.ErrorList {
	if _, why, ok := inplace.Diff(old, template, may); !ok {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
			"podUpdatePolicy InPlaceOnly can't make this change (%s): use InPlaceIfPossible or ReCreate for it", why))}
	}
	return nil
}
