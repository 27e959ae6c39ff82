package podset

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is the node that a pod is on, or the only one that it can be scheduled to; empty if it may go to any. It reads
// FieldPinnedNode.
func Node(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	return Pinned(pod)
}

// Pinned is the node that a pod is pinned to by its node affinity, as pods of DaemonSets are; empty if it is not. It reads
// FieldPinnedNode.
func Pinned(pod *corev1.Pod) string {
	terms := required(pod.Spec.Affinity)
	if len(terms) != 1 {
		return ""
	}
	for _, f := range terms[0].MatchFields {
		if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
			return f.Values[0]
		}
	}
	return ""
}

func required(a *corev1.Affinity) []corev1.NodeSelectorTerm {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}
