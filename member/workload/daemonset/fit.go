package daemonset

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Nodes that are no machines run no daemons. Source: OpenKruise.
const (
	labelNodeType      = "type"
	virtualKubeletType = "virtual-kubelet"
)

// needs are what the pods of a template ask of a node.
type needs struct {
	node        string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func needsOf(t *corev1.PodTemplateSpec) needs {
	return needs{
		node:        t.Spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: t.Spec}),
		tolerations: tolerations(&t.Spec),
	}
}

// fit tells whether a pod is to run on the node, and whether one that is there may stay. It is a pure function. Source: kube
// 1.36, NodeShouldRunDaemonPod; an affinity that can't be read fits no node.
func (n needs) fit(node *corev1.Node) (run, stay bool) {
	if n.node != "" && n.node != node.Name || node.Labels[labelNodeType] == virtualKubeletType {
		return false, false
	}
	if match, err := n.affinity.Match(node); err != nil || !match {
		return false, false
	}
	run, stay = true, true
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if n.tolerates(taint) {
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

func (n needs) tolerates(taint *corev1.Taint) bool {
	return slices.ContainsFunc(n.tolerations, func(t corev1.Toleration) bool {
		// Whether operators that compare are served is what the apiserver has said of the template. Nobody reads that log.
		return t.ToleratesTaint(logr.Discard(), taint, true)
	})
}

// tolerations are those of a pod, and those that all daemon pods have: they stay on nodes in trouble, and come to nodes that are
// closed to others. Source: kube 1.36, AddOrUpdateDaemonPodTolerations.
func tolerations(pod *corev1.PodSpec) []corev1.Toleration {
	out := slices.Clone(pod.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		own := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		same := func(t corev1.Toleration) bool { return t.MatchToleration(&own) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = own // Without a time limit: one for NoExecute would let the pod be evicted and made anew.
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
