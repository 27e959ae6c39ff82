package nodelease

import corev1 "k8s.io/api/core/v1"

// Liveness reports on which nodes a daemon is alive that restarts containers for their env.
type Liveness interface{ Live(node string) bool }

// Nodes returns the nodes of pods on which a daemon is alive.
func Nodes(l Liveness, pods []*corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, p := range pods {
		if node := p.Spec.NodeName; node != "" && !out[node] && l.Live(node) {
			out[node] = true
		}
	}
	return out
}
