package workloadspread

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// inject applies a subset's settings to a pod. If it returns an error, which is about the patch, the pod is unchanged.
func inject(pod *corev1.Pod, s *appsv1beta1.WorkloadSpreadSubset, m matched) error {
	out := pod.DeepCopy()
	out.Spec.Tolerations = append(out.Spec.Tolerations, s.Tolerations...)
	requireTerm(&out.Spec, s.RequiredNodeSelector)
	if len(s.PreferredNodeSelector) > 0 {
		n := nodeAffinity(&out.Spec)
		n.PreferredDuringSchedulingIgnoredDuringExecution = append(n.PreferredDuringSchedulingIgnoredDuringExecution, s.PreferredNodeSelector...)
	}
	if s.Patch != nil && len(s.Patch.Raw) > 0 {
		if err := mergePatch(out, s.Patch.Raw, false); err != nil {
			return err
		}
	}
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, keys.MatchedWorkloadSpread, m.String())
	*pod = *out
	return nil
}

// requireTerm adds a term to each required node selector term. A node has to match only one of the required terms. An empty term matches no
// node, and is skipped.
func requireTerm(spec *corev1.PodSpec, term *corev1.NodeSelectorTerm) {
	if term == nil || len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return
	}
	n := nodeAffinity(spec)
	if n.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		n.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	terms := n.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) == 0 {
		n.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{*term.DeepCopy()}
		return
	}
	for i := range terms {
		t := &terms[i]
		if len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			t.MatchExpressions = slices.Concat(t.MatchExpressions, term.MatchExpressions)
			t.MatchFields = slices.Concat(t.MatchFields, term.MatchFields)
		}
	}
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	return spec.Affinity.NodeAffinity
}

// mergePatch applies a strategic merge patch to a pod. With strict, unknown fields are an error.
func mergePatch(pod *corev1.Pod, patch []byte, strict bool) error {
	fields, err := podpatch.Merge(pod, patch, corev1.Pod{})
	if err != nil {
		return err //nolint:wrapcheck // It says what failed.
	}
	var out corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, &out, strict); err != nil {
		return fmt.Errorf("read the patched pod: %w", err)
	}
	if out.Spec.PriorityClassName != pod.Spec.PriorityClassName { // The Priority admission plugin runs again, and rejects values of another class.
		out.Spec.Priority = nil
		if ptr.Equal(out.Spec.PreemptionPolicy, pod.Spec.PreemptionPolicy) {
			out.Spec.PreemptionPolicy = nil
		}
	}
	*pod = out
	return nil
}
