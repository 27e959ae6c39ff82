// Package jobsidecar determines which containers of a pod are sidecars that end with it, and when: those marked by OpenKruise's environment
// variables, once all other containers have ended. The node daemon stops them; the manager does whatever requires a write to the pod.
//
// This package ignores sidecars that are restartable init containers: the kubelet ends them.
package jobsidecar

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// Sidecar is a container that has to end when all others in its pod have ended.
type Sidecar struct {
	Container *corev1.Container
	// Status is what the kubelet reports about the container; nil if there is no report yet.
	Status *corev1.ContainerStatus
	// Stopped: the node's daemon stops the container, because of variable keys.EnvTerminateSidecar.
	Stopped bool
	// Ignored: Stopped applies, and the exit code is ignored, because of keys.EnvTerminateSidecarIgnoreExitCode. The container ends because the pod
	// is declared ended.
	Ignored bool
	// Image is a replacement image that ends at once, for virtual nodes, which have no daemon: keys.EnvTerminateSidecarByImage. Empty if there is
	// none.
	Image string
}

// Pod is a pod with such sidecars.
type Pod struct {
	Sidecars []Sidecar
	// Done: all other containers have ended, and will not be restarted.
	Done bool
	// Phase is the phase of the pod judged by the other containers, once they are done.
	Phase corev1.PodPhase

	restarts bool
}

// Concerns reports whether a pod has such sidecars: it is meant to end, and at least one of its containers isn't a sidecar.
func Concerns(pod *corev1.Pod) bool {
	n := 0
	for i := range pod.Spec.Containers {
		if isSidecar(&pod.Spec.Containers[i]) {
			n++
		}
	}
	return n > 0 && n < len(pod.Spec.Containers) && runsToCompletion(pod.Spec.RestartPolicy)
}

// Of reads a pod that Concerns accepts.
func Of(pod *corev1.Pod) Pod {
	out := Pod{Done: podpatch.Active(pod), Phase: corev1.PodSucceeded, restarts: pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		st := inplace.Status(pod, c.Name)
		if isSidecar(c) {
			out.Sidecars = append(out.Sidecars, Sidecar{
				Container: c, Status: st, Stopped: isTrue(c, keys.EnvTerminateSidecar),
				Ignored: isTrue(c, keys.EnvTerminateSidecar) && isTrue(c, keys.EnvTerminateSidecarIgnoreExitCode),
				Image:   envValue(c, keys.EnvTerminateSidecarByImage),
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

// Ended reports whether a container has ended and will not be restarted.
func (p Pod) Ended(st *corev1.ContainerStatus) bool {
	return st != nil && st.State.Terminated != nil && (!p.restarts || st.State.Terminated.ExitCode == 0)
}

// Variable reports whether a variable with that name concerns sidecars.
func Variable(name string) bool {
	return name == keys.EnvTerminateSidecar || name == keys.EnvTerminateSidecarIgnoreExitCode || name == keys.EnvTerminateSidecarByImage
}

func runsToCompletion(p corev1.RestartPolicy) bool {
	return p == corev1.RestartPolicyNever || p == corev1.RestartPolicyOnFailure
}

func isSidecar(c *corev1.Container) bool {
	return isTrue(c, keys.EnvTerminateSidecar) || envValue(c, keys.EnvTerminateSidecarByImage) != ""
}

func isTrue(c *corev1.Container, name string) bool {
	return strings.EqualFold(envValue(c, name), "true")
}

// envValue returns the value of a variable; empty if it has no literal value. If the variable is set twice, the last entry wins.
func envValue(c *corev1.Container, name string) string {
	for _, e := range slices.Backward(c.Env) {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}
