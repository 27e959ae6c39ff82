package podwebhook

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// OperationOf returns what a request that changes a pod from old to pod, or its resize subresource, does: Update, Resize, or empty if it doesn't
// concern guards. Guards are asked about changes of the spec and about labels that mark the pod as unavailable, but not about a pod that is
// being deleted.
func OperationOf(old, pod *corev1.Pod) Operation {
	switch {
	case old.DeletionTimestamp != nil || pod.DeletionTimestamp != nil:
		return ""
	case becomesUnavailable(old, pod):
		return Update
	case equality.Semantic.DeepEqual(old.Spec, pod.Spec):
		return ""
	case resized(old, pod):
		return Resize
	}
	return Update
}

// becomesUnavailable reports whether a change adds a label that marks the pod as unavailable.
func becomesUnavailable(old, pod *corev1.Pod) bool {
	for label := range pod.Labels {
		if _, had := old.Labels[label]; !had && strings.HasPrefix(label, keys.UnavailablePodPrefix) {
			return true
		}
	}
	return false
}

// resized reports whether a change only touches cpu and memory of containers that keep running meanwhile.
func resized(old, pod *corev1.Pod) bool {
	if !sameButResources(&old.Spec, &pod.Spec) || inplace.QOSClass(&old.Spec) != inplace.QOSClass(&pod.Spec) {
		return false
	}
	return resizes(old.Spec.Containers, pod.Spec.Containers) && resizes(old.Spec.InitContainers, pod.Spec.InitContainers)
}

// sameButResources reports whether two specs differ at most in the resources of their containers and of the pod.
func sameButResources(old, spec *corev1.PodSpec) bool {
	without := func(s *corev1.PodSpec) corev1.PodSpec {
		out := *s
		out.Resources = nil
		out.Containers, out.InitContainers = slices.Clone(s.Containers), slices.Clone(s.InitContainers)
		for _, list := range [][]corev1.Container{out.Containers, out.InitContainers} {
			for i := range list {
				list[i].Resources = corev1.ResourceRequirements{}
			}
		}
		return out
	}
	return equality.Semantic.DeepEqual(without(old), without(spec))
}

// resizes reports whether containers change in no resources other than cpu and memory, and none restarts because of that. Both lists have the
// same containers.
func resizes(old, containers []corev1.Container) bool {
	for i := range containers {
		before, after := old[i].Resources, containers[i].Resources
		if !equality.Semantic.DeepEqual(before.Claims, after.Claims) {
			return false
		}
		for _, name := range slices.Concat(changed(before.Requests, after.Requests), changed(before.Limits, after.Limits)) {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory || restarts(&containers[i], name) {
				return false
			}
		}
	}
	return true
}

// changed returns the resources whose quantities differ or that are in only one of the lists.
func changed(before, after corev1.ResourceList) []corev1.ResourceName {
	var out []corev1.ResourceName
	for name, q := range after {
		if oldValue, had := before[name]; !had || oldValue.Cmp(q) != 0 {
			out = append(out, name)
		}
	}
	for name := range before {
		if _, has := after[name]; !has {
			out = append(out, name)
		}
	}
	return out
}

// restarts reports whether a container restarts when a resource is resized; the default is that it doesn't.
func restarts(c *corev1.Container, name corev1.ResourceName) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.ResourceName == name && p.RestartPolicy != corev1.NotRequired
	})
}
