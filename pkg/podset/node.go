package podset

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is the node that a pod is on, or the only one that it may go to; empty if it is free to go anywhere.
func Node(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	return Pinned(pod)
}

// Pinned is the node to which a pod is bound by its affinity, as DaemonSets bind theirs; empty if it is to none.
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

// StripNode takes off a node, in place, what no plan reads, for a cache that holds all nodes: what is left is its metadata
// without annotations and managed fields, and its taints. Its kubelet's news of conditions and images change nothing of it.
func StripNode(node *corev1.Node) {
	node.ManagedFields, node.Annotations = nil, nil
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints}
	node.Status = corev1.NodeStatus{}
}
