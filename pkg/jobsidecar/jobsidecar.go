// Package jobsidecar says which containers of a pod are sidecars that end with it, and when: those that OpenKruise's variables mark, once
// all others have ended. The node daemon stops them; the manager does what takes a write to the pod.
//
// Sidecars that are restartable init containers are no concern of this package: kubelets end them.
package jobsidecar

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
)

// Sidecar is a container that is to end when all others of its pod have.
type Sidecar struct {
	Container *corev1.Container
	// Status is what the kubelet reports of it, nil if nothing yet.
	Status *corev1.ContainerStatus
	// Stopped: it is stopped on the node by its daemon, by variable keys.EnvTerminateSidecar.
	Stopped bool
	// Ignored: so is its exit code, by keys.EnvTerminateSidecarIgnoreExitCode. It ends because the pod is said to have.
	Ignored bool
	// Image ends at once, for a node that has no daemon because it is virtual: keys.EnvTerminateSidecarByImage. Empty if there is none.
	Image string
}

// Pod is a pod with such sidecars.
type Pod struct {
	Sidecars []Sidecar
	// Done: all other containers have ended, and will not be restarted.
	Done bool
	// Phase is that of the pod by the other containers, if they are done.
	Phase corev1.PodPhase

	restarts bool
}

// Concerns reports whether a pod has such sidecars: it is meant to end, and at least one of its containers is no sidecar.
func Concerns(pod *corev1.Pod) bool {
	n := 0
	for i := range pod.Spec.Containers {
		if marked(&pod.Spec.Containers[i]) {
			n++
		}
	}
	return n > 0 && n < len(pod.Spec.Containers) && ends(pod.Spec.RestartPolicy)
}

// Of reads a pod that Concerns accepts.
func Of(pod *corev1.Pod) Pod {
	out := Pod{Done: podpatch.Active(pod), Phase: corev1.PodSucceeded, restarts: pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		st := inplace.Status(pod, c.Name)
		if marked(c) {
			out.Sidecars = append(out.Sidecars, Sidecar{
				Container: c, Status: st, Stopped: is(c, keys.EnvTerminateSidecar),
				Ignored: is(c, keys.EnvTerminateSidecar) && is(c, keys.EnvTerminateSidecarIgnoreExitCode),
				Image:   value(c, keys.EnvTerminateSidecarByImage),
			})
			continue
		}
		if !out.Ended(st) {
			out.Done = false
		} else if st.State.Terminated.ExitCode != 0 {
			out.Phase = corev1.PodFailed
		}
	}
	return out
}

// Ended reports whether a container has ended and is not restarted.
func (p Pod) Ended(st *corev1.ContainerStatus) bool {
	return st != nil && st.State.Terminated != nil && (!p.restarts || st.State.Terminated.ExitCode == 0)
}

// Variable reports whether a variable of that name says something about sidecars.
func Variable(name string) bool {
	return name == keys.EnvTerminateSidecar || name == keys.EnvTerminateSidecarIgnoreExitCode || name == keys.EnvTerminateSidecarByImage
}

func ends(p corev1.RestartPolicy) bool {
	return p == corev1.RestartPolicyNever || p == corev1.RestartPolicyOnFailure
}

func marked(c *corev1.Container) bool {
	return is(c, keys.EnvTerminateSidecar) || value(c, keys.EnvTerminateSidecarByImage) != ""
}

func is(c *corev1.Container, name string) bool { return strings.EqualFold(value(c, name), "true") }

// value is that of a variable, empty if it has none of its own. If it is set twice, the last one counts.
func value(c *corev1.Container, name string) string {
	for _, e := range slices.Backward(c.Env) {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}
