package inplace

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// Outdated reports whether a container of a pod is still the one from before a change that replaces it: the pod may be ready, but soon won't be.
// It considers changes by workloads and SidecarSets, using their records, and other changes that the kubelet has not seen yet. changesAt is when
// the answer can change just by time passing; zero means never.
func Outdated(pod *corev1.Pod, now time.Time) (outdated bool, changesAt time.Time) {
	if outdated, changesAt = OutdatedByOthers(pod, now); outdated || !Recorded(pod) {
		return outdated, changesAt
	}
	r := recordOf(pod)
	if o := r.outcome(pod, now); !o.Done && r.restartsAny(pod) {
		return true, o.ChangesAt
	}
	return false, time.Time{}
}

// OutdatedByOthers is Outdated without the changes that the pod's workload has recorded.
func OutdatedByOthers(pod *corev1.Pod, now time.Time) (outdated bool, changesAt time.Time) {
	if ImageChangeUnobserved(pod) {
		return true, time.Time{}
	}
	if pod.Annotations[keys.SidecarSetInPlaceState] == "" || !slices.ContainsFunc(Containers(pod), func(c *corev1.Container) bool {
		st := Status(pod, c.Name)
		return st != nil && differs(c, st)
	}) {
		return false, time.Time{} // Without reading the records.
	}
	for _, s := range SidecarStates(pod) {
		if lags, until := RestartPending(pod, s.UpdateTimestamp.Time, now); lags {
			return true, until
		}
	}
	return false, time.Time{}
}

// ImageChangeUnobserved reports whether the kubelet has not yet seen that a container has to run another image: the readiness that it reports is
// about the old container. It doesn't matter who made the change. A kubelet before 1.34 doesn't report what it has seen; on such nodes only
// changes with a record are known.
func ImageChangeUnobserved(pod *corev1.Pod) bool {
	return Unobserved(pod) && slices.ContainsFunc(Containers(pod), func(c *corev1.Container) bool {
		st := Status(pod, c.Name)
		return st == nil || !SameImage(c.Image, st)
	})
}

// RestartPending reports whether the kubelet still has to replace a container because of what was written to the pod at that time, by anyone: the
// container has been running since before then, and differs from the spec. Runtimes may report an image under another name, so this ends when
// the kubelet has seen the change and would have stopped a container from before it; until is that time, zero while it is unknown.
func RestartPending(pod *corev1.Pod, written, now time.Time) (lags bool, until time.Time) {
	stale := slices.ContainsFunc(Containers(pod), func(c *corev1.Container) bool {
		st := Status(pod, c.Name)
		return st != nil && st.State.Running != nil && !st.State.Running.StartedAt.After(written) && differs(c, st)
	})
	if !stale {
		return false, time.Time{}
	}
	if Unobserved(pod) {
		return true, time.Time{}
	}
	until = written.Add(observeTime + GracePeriod(pod) + settleTime)
	return now.Before(until), until
}

// differs reports whether a container has to be replaced to be as specified.
func differs(c *corev1.Container, st *corev1.ContainerStatus) bool {
	return !SameImage(c.Image, st) || restartsToResize(c, st)
}

// restartsToResize reports whether a container doesn't have the cpu and memory of its spec and restarts to get them.
func restartsToResize(c *corev1.Container, st *corev1.ContainerStatus) bool {
	return st.Resources != nil && restartsFor(c, c.Resources) && !hasResources(*st.Resources, cpuAndMemory(c.Resources))
}

// restartsAny reports whether an update restarts containers. It is false for a resize that needs no restart.
func (r record) restartsAny(pod *corev1.Pod) bool {
	return slices.ContainsFunc(r.changed(), func(name string) bool {
		c := Container(&pod.Spec, name)
		return c != nil && (r.changesImage(name) || r.changesEnv(c) || r.restarts(name) || r.changesResources(name) && restartsFor(c, c.Resources))
	})
}

// SidecarStates returns the records of the last in-place updates of sidecars, by SidecarSet.
func SidecarStates(pod *corev1.Pod) map[string]pods.InPlaceUpdateState {
	text := pod.Annotations[keys.SidecarSetInPlaceState]
	if text == "" {
		return nil
	}
	var out map[string]pods.InPlaceUpdateState
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}
