// Package nodefit decides on which nodes pods may run, by the names, labels, taints and, for kinds that ask for it, the size of
// nodes. Whether a node has free resources is left to the scheduler. All functions are pure.
package nodefit

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
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
	// requests are those of a pod of a job, nil for others.
	requests corev1.ResourceList
	job      bool
}

// New returns the Matcher of pods with this spec, whose tolerations are replaced by these.
func New(spec *corev1.PodSpec, tolerations []corev1.Toleration) Matcher {
	return Matcher{
		node:        spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}),
		tolerations: tolerations,
	}
}

// ForJob returns the Matcher of pods that run to completion. They go to virtual nodes too, and only to nodes that are large enough
// for them if nothing else runs there: elsewhere they would be pending, and the job would never be complete.
func ForJob(spec *corev1.PodSpec) Matcher {
	m := New(spec, spec.Tolerations)
	m.job, m.requests = true, resource.PodRequests(&corev1.Pod{Spec: *spec}, resource.PodResourcesOptions{})
	return m
}

// Selects reports whether a pod may be on the node by its name and labels.
func (m Matcher) Selects(node *corev1.Node) bool {
	if m.node != "" && m.node != node.Name || !m.job && Virtual(node) {
		return false
	}
	match, err := m.affinity.Match(node)
	return err == nil && match
}

// holds reports whether the node is large enough for a pod if nothing else runs there. It reads FieldNodeAllocatable.
func (m Matcher) holds(node *corev1.Node) bool {
	for name, request := range m.requests {
		if has := node.Status.Allocatable[name]; request.Cmp(has) > 0 {
			return false
		}
	}
	return true
}

// Match reports whether a pod should run on the node, and whether an existing one may stay. An affinity that can't be
// parsed matches no node. Source: kube 1.36, NodeShouldRunDaemonPod.
func (m Matcher) Match(node *corev1.Node) (run, stay bool) {
	if !m.Selects(node) {
		return false, false
	}
	run, stay = m.holds(node), true
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
