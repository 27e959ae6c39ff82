// Package nodefit decides on which nodes pods may run, by the names, labels and taints of nodes. Whether a node has free
// resources is left to the scheduler. All functions are pure.
package nodefit

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Virtual nodes represent another system and run no daemon pods. Source: OpenKruise.
const (
	labelNodeType      = "type"
	virtualKubeletType = "virtual-kubelet"
)

// Matcher is the node requirements of pods.
type Matcher struct {
	node        string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

// New returns the Matcher of pods with this spec, whose tolerations are replaced by these.
func New(spec *corev1.PodSpec, tolerations []corev1.Toleration) Matcher {
	return Matcher{
		node:        spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}),
		tolerations: tolerations,
	}
}

// Match reports whether a pod should run on the node, and whether an existing one may stay. An affinity that can't be
// parsed matches no node. Source: kube 1.36, NodeShouldRunDaemonPod.
func (m Matcher) Match(node *corev1.Node) (run, stay bool) {
	if m.node != "" && m.node != node.Name || Virtual(node) {
		return false, false
	}
	if match, err := m.affinity.Match(node); err != nil || !match {
		return false, false
	}
	run, stay = true, true
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if m.tolerates(taint) {
			continue
		}
		switch taint.Effect {
		case corev1.TaintEffectNoExecute:
			run, stay = false, false
		case corev1.TaintEffectNoSchedule:
			run = false
		case corev1.TaintEffectPreferNoSchedule:
		}
	}
	return run, stay
}

func (m Matcher) tolerates(taint *corev1.Taint) bool {
	return slices.ContainsFunc(m.tolerations, func(t corev1.Toleration) bool {
		// The apiserver has accepted the operator in the template, so comparison operators are enabled. The logger is not used.
		return t.ToleratesTaint(logr.Discard(), taint, true)
	})
}

// Virtual reports whether a node is a virtual one.
func Virtual(node *corev1.Node) bool { return node.Labels[labelNodeType] == virtualKubeletType }

// DaemonTolerations returns the tolerations of a pod and those of all daemon pods, which stay on unhealthy nodes and
// run on unschedulable ones. Source: kube 1.36, AddOrUpdateDaemonPodTolerations.
func DaemonTolerations(pod *corev1.PodSpec) []corev1.Toleration {
	out := slices.Clone(pod.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		own := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		same := func(t corev1.Toleration) bool { return t.MatchToleration(&own) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = own // Without tolerationSeconds: the pod would be evicted, and created again.
			return
		}
		out = append(out, own)
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if pod.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return out
}
