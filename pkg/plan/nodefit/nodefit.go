// Package nodefit decides which nodes pods may run on, based on the names, labels, taints and, for kinds that request it, the size of nodes.
// Whether a node has free resources is left to the scheduler. All functions are pure.
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

// Matcher holds the node requirements of pods.
type Matcher struct {
	node        string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	// requests are the requests of a Job's pod; nil for other pods.
	requests corev1.ResourceList
	job      bool
}

// New returns the Matcher for pods with this spec, using these tolerations in place of the spec's.
func New(spec *corev1.PodSpec, tolerations []corev1.Toleration) Matcher {
	return Matcher{
		node:        spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}),
		tolerations: tolerations,
	}
}

// ForJob returns the Matcher for pods that run to completion. They go to virtual nodes too, but only to nodes large enough for them if nothing
// else runs there: elsewhere they would stay pending, and the job would never complete.
func ForJob(spec *corev1.PodSpec) Matcher {
	m := New(spec, spec.Tolerations)
	m.job, m.requests = true, resource.PodRequests(&corev1.Pod{Spec: *spec}, resource.PodResourcesOptions{})
	return m
}

// Selects reports whether a pod may be on the node, judging by the node's name and labels.
func (m Matcher) Selects(node *corev1.Node) bool {
	if m.node != "" && m.node != node.Name || !m.job && Virtual(node) {
		return false
	}
	match, err := m.affinity.Match(node)
	return err == nil && match
}

// fits reports whether the node is large enough for a pod if nothing else runs there. It reads FieldNodeAllocatable.
func (m Matcher) fits(node *corev1.Node) bool {
	for name, request := range m.requests {
		if has := node.Status.Allocatable[name]; request.Cmp(has) > 0 {
			return false
		}
	}
	return true
}

// Match reports whether a pod should run on the node, and whether an existing one may stay. An affinity that can't be parsed matches no node.
// Source: Kubernetes 1.36, NodeShouldRunDaemonPod.
func (m Matcher) Match(node *corev1.Node) (run, stay bool) {
	if !m.Selects(node) {
		return false, false
	}
	run, stay = m.fits(node), true
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
		// The API server has accepted the operator in the template, so comparison operators are enabled. The logger is not used.
		return t.ToleratesTaint(logr.Discard(), taint, true)
	})
}

// Virtual reports whether a node is virtual.
func Virtual(node *corev1.Node) bool { return node.Labels[labelNodeType] == virtualKubeletType }

// DaemonTolerations returns the tolerations of a pod plus those of all daemon pods, which stay on unhealthy nodes and run on unschedulable ones.
// Source: Kubernetes 1.36, AddOrUpdateDaemonPodTolerations.
func DaemonTolerations(pod *corev1.PodSpec) []corev1.Toleration {
	out := slices.Clone(pod.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		own := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		same := func(t corev1.Toleration) bool { return t.MatchToleration(&own) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = own // Without tolerationSeconds: otherwise the pod would be evicted and created again.
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
