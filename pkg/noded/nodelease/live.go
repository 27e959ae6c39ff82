package nodelease

import corev1 "k8s.io/api/core/v1"

// Liveness reports whether a daemon that restarts containers for their env is alive on a node.
type Liveness interface{ Live(node string) bool }

// Nodes returns those nodes of the pods on which a daemon is alive.
func Nodes(l Liveness, pods []*corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, p := range pods {
		if node := p.Spec.NodeName; node != "" && !out[node] && l.Live(node) {
			out[node] = true
		}
	}
	return out
}
