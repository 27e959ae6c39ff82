package inplace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// observeTime is how long a kubelet may take to see a changed spec before container statuses are believed without
	// its word that it has.
	observeTime = 10 * time.Second
	// settleTime is added to a pod's termination grace period: a container that still runs that long after its start was
	// not started from the former spec, because the kubelet would have ended it by then.
	settleTime = 5 * time.Second
	// defaultGrace is the termination grace period of a pod that names none, as in kube 1.36.
	defaultGrace = 30 * time.Second
)

// Outcome is how far the containers of a pod have followed its last update in place.
type Outcome struct {
	Done bool
	// Why names, while not done, the first container that is waited for, and what it says itself: "container app waits:
	// ImagePullBackOff".
	Why string
	// ChangesAt is when time alone can change the outcome; zero if never.
	ChangesAt time.Time
}

// Progress tells whether the containers of the last update in place run what was written. They need not be ready. A pod
// that was never updated is done.
//
// A container has followed when its image ID is another one than before, or when it runs (or ran) an image of the name
// that the spec asks for. Where runtimes report one image under several names, a new tag of the same image shows neither;
// there a restart counts, once the container has run longer than one from the former spec could.
func Progress(pod *corev1.Pod, now time.Time) Outcome {
	if Pending(pod) {
		return Outcome{Why: "a part of the update is not written yet"}
	}
	r := recordOf(pod)
	names := slices.Sorted(maps.Keys(r.LastContainerStatuses))
	seen, generation := pod.Status.ObservedGeneration, pod.Generation
	// A kubelet before 1.34 does not say what it has seen (0), so there nothing is waited for.
	if until := r.UpdateTimestamp.Add(observeTime); len(names) > 0 && seen > 0 && seen < generation && now.Before(until) {
		return Outcome{
			Why:       fmt.Sprintf("kubelet has seen generation %d of %d", seen, generation),
			ChangesAt: until,
		}
	}
	for _, name := range names {
		if o := r.progress(pod, name, now); !o.Done {
			return o
		}
	}
	return Outcome{Done: true}
}

// progress tells whether one container has followed.
func (r record) progress(pod *corev1.Pod, name string, now time.Time) Outcome {
	spec, st := container(pod.Spec.Containers, name), status(pod, name)
	was := r.LastContainerStatuses[name].ImageID
	switch {
	case spec == nil:
		return Outcome{Done: true}
	case st == nil:
		return Outcome{Why: "container " + name + " has no status"}
	case st.State.Waiting != nil && st.State.Waiting.Reason != "CrashLoopBackOff":
		return Outcome{Why: fmt.Sprintf("container %s waits: %s", name, waits(st.State.Waiting))}
	case was != "" && st.ImageID != "" && st.ImageID != was:
		return Outcome{Done: true}
	case sameImage(spec.Image, st) && !r.UpdateEnvFromMetadata:
		return Outcome{Done: true}
	case st.State.Running != nil && r.restarted(st):
		until := st.State.Running.StartedAt.Add(gracePeriod(pod) + settleTime)
		if !now.Before(until) {
			return Outcome{Done: true}
		}
		return Outcome{
			Why:       fmt.Sprintf("container %s was restarted with %s, which may be the former image", name, st.Image),
			ChangesAt: until,
		}
	case r.UpdateEnvFromMetadata:
		return Outcome{Why: "container " + name + " reads changed metadata by env and was not restarted"}
	case st.State.Terminated != nil:
		return Outcome{Why: fmt.Sprintf("container %s has ended with code %d and was not restarted",
			name, st.State.Terminated.ExitCode)}
	case st.ContainerID == "":
		return Outcome{Why: "container " + name + " was not started yet"}
	default:
		return Outcome{Why: fmt.Sprintf("container %s still has %s", name, st.Image)}
	}
}

// restarted tells whether the container is another one than before the update. A record of another writer says nothing of
// the former container: then the start is compared with the time of the update.
func (r record) restarted(st *corev1.ContainerStatus) bool {
	if was, known := r.LastContainerIDs[st.Name]; known {
		return st.ContainerID != "" && st.ContainerID != was
	}
	return st.State.Running.StartedAt.After(r.UpdateTimestamp.Time)
}

func waits(w *corev1.ContainerStateWaiting) string {
	reason := w.Reason
	if reason == "" {
		reason = "no reason given"
	}
	if w.Message != "" {
		reason += ", " + w.Message
	}
	return reason
}

func gracePeriod(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return defaultGrace
}

// sameImage tells whether the status reports the image that the spec asks for, by digest where the spec has one, else by
// name.
func sameImage(want string, st *corev1.ContainerStatus) bool {
	if _, digest, pinned := strings.Cut(want, "@"); pinned &&
		(strings.HasSuffix(st.ImageID, digest) || strings.HasSuffix(st.Image, digest)) {
		return true
	}
	return fullName(want) == fullName(st.Image)
}

// fullName writes an image name in full: nginx is docker.io/library/nginx:latest.
func fullName(image string) string {
	host, _, hasHost := strings.Cut(image, "/")
	switch {
	case !hasHost:
		image = "docker.io/library/" + image
	case host != "localhost" && !strings.ContainsAny(host, ".:"):
		image = "docker.io/" + image
	}
	if last := image[strings.LastIndex(image, "/"):]; !strings.ContainsAny(last, ":@") {
		image += ":latest"
	}
	return image
}
