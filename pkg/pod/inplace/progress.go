package inplace

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

const (
	// observeTime is how long a kubelet may take to see a changed spec. After that, container statuses are trusted even if the kubelet doesn't
	// report having seen the change.
	observeTime = 10 * time.Second
	// settleTime is added to a pod's termination grace period: a container that still runs that long after its start wasn't started from the old
	// spec, because the kubelet would have stopped it by then.
	settleTime = 5 * time.Second
	// defaultGrace is the termination grace period of a pod that sets none, as in Kubernetes 1.36.
	defaultGrace = 30 * time.Second
)

// Outcome is the progress of a pod's containers with its last in-place update.
type Outcome struct {
	Done bool
	// Next: it is time for Continue to write the next part.
	Next bool
	// Why names, while not done, the first container that the update waits for, with the reason: "container app is waiting: ImagePullBackOff".
	Why string
	// Daemon: the node daemon of the pod's node has to act.
	Daemon bool
	// Since is when the change being waited for was written. Why may change while Since stays the same.
	Since time.Time
	// ChangesAt is when the outcome can change just by time passing; zero means never.
	ChangesAt time.Time
}

// Progress reports whether the containers run what the last in-place update wrote. They need not be ready, unless another batch waits for them.
// A pod that was never updated is done.
//
// A container runs the new image if its image ID has changed, if it runs (or ran) an image with the name in the spec, or if the node daemon
// reports that it was started from this spec. Where runtimes report one image under several names, a new tag of the same image shows none of
// these; then a restart counts, once the container has run longer than one from the old spec could. A container has its new resources when its
// status reports them, and new metadata in its env when the node daemon reports it or the container has restarted. It has restarted when it has
// a different ID.
func Progress(pod *corev1.Pod, now time.Time) Outcome {
	r := recordOf(pod)
	o := r.outcome(pod, now)
	if !o.Done && !o.Next {
		o.Since = r.since()
	}
	return o
}

// outcome is Progress without Since.
func (r record) outcome(pod *corev1.Pod, now time.Time) Outcome {
	rest := remainingOf(pod, r)
	switch {
	case !rest.grace.empty() && now.Before(rest.until):
		return Outcome{Why: "the grace period before the update is not over", ChangesAt: rest.until}
	case !rest.grace.empty():
		return Outcome{Next: true, Why: "the grace period before the update is over"}
	case len(rest.resize) > 0:
		return Outcome{Next: true, Why: "resources haven't been written yet"}
	}
	names := r.changed()
	if until := r.since().Add(observeTime); len(names) > 0 && Unobserved(pod) && now.Before(until) {
		return Outcome{
			Why:       fmt.Sprintf("kubelet has seen generation %d of %d", pod.Status.ObservedGeneration, pod.Generation),
			ChangesAt: until,
		}
	}
	for _, name := range names {
		if o := r.progress(pod, name, now); !o.Done {
			return o
		}
	}
	if rest.later.empty() {
		return Outcome{Done: true}
	}
	if c := r.PreCheckBeforeNext; c != nil {
		names = c.ContainersRequiredReady
	}
	for _, name := range names {
		if st := status(pod, name); Container(&pod.Spec, name) != nil && (st == nil || !st.Ready) {
			return Outcome{Why: "container " + name + " isn't ready, and others are updated after it"}
		}
	}
	return Outcome{Next: true, Why: "all containers updated so far are ready"}
}

// Unobserved reports whether the kubelet has not yet seen the last write to a pod. A kubelet before 1.34 doesn't report what it has seen (0), so
// there is nothing to wait for.
func Unobserved(pod *corev1.Pod) bool {
	return pod.Status.ObservedGeneration > 0 && pod.Status.ObservedGeneration < pod.Generation
}

// progress reports whether one container runs what was written.
func (r record) progress(pod *corev1.Pod, name string, now time.Time) Outcome {
	spec, st := Container(&pod.Spec, name), status(pod, name)
	switch {
	case spec == nil:
		return Outcome{Done: true}
	case st == nil:
		return Outcome{Why: "container " + name + " has no status"}
	case st.State.Waiting != nil && st.State.Waiting.Reason != crashes:
		w := st.State.Waiting
		return Outcome{Why: fmt.Sprintf("container %s is waiting: %s", name, withMessage(cmp.Or(w.Reason, "no reason given"), w.Message))}
	}
	if r.changesImage(name) || r.changesEnv(spec) {
		if o := r.restartProgress(pod, spec, st, now); !o.Done {
			return o
		}
	}
	if oldID, known := r.LastContainerIDs[name]; r.restarts(name) && known && (st.ContainerID == "" || st.ContainerID == oldID) {
		return Outcome{Why: "container " + name + " hasn't been restarted as requested", Daemon: true}
	}
	if r.changesResources(name) {
		return resizeProgress(pod, spec, st)
	}
	return Outcome{Done: true}
}

// restartProgress reports whether a container has been restarted from its spec.
func (r record) restartProgress(pod *corev1.Pod, spec *corev1.Container, st *corev1.ContainerStatus, now time.Time) Outcome {
	name := spec.Name
	from, reported := startedOf(pod, st)
	env, want := r.readsEnv(spec), EnvHash(MetadataEnv(spec, pod))
	startedWith, known := r.StartedWith[name][spec.Image]
	oldEnv := env && known && startedWith != want // A container with the old env may have been started from the same image.
	switch {
	case env && reported && from.Hashes.ExtractedEnvFromMetadataHash != want:
		return Outcome{Why: "container " + name + " reads changed metadata by env and still has the old values", Daemon: true}
	case env && reported && !r.changesImage(name), reported && from.startedFrom(spec):
		return Outcome{Done: true}
	case r.changesImage(name) && r.runsNewImage(spec, st) && (reported || !oldEnv):
		return Outcome{Done: true}
	case st.State.Running != nil && r.restarted(st):
		until := st.State.Running.StartedAt.Add(GracePeriod(pod) + settleTime)
		if !now.Before(until) {
			return Outcome{Done: true}
		}
		return Outcome{
			Why:       fmt.Sprintf("container %s was restarted with %s, which may be the old image", name, st.Image),
			ChangesAt: until,
		}
	case !r.changesImage(name), oldEnv && !reported && r.runsNewImage(spec, st):
		return Outcome{Why: "container " + name + " reads changed metadata by env and wasn't restarted", Daemon: true}
	case st.State.Terminated != nil:
		return Outcome{Why: fmt.Sprintf("container %s exited with code %d and wasn't restarted",
			name, st.State.Terminated.ExitCode)}
	case st.ContainerID == "":
		return Outcome{Why: "container " + name + " hasn't been started yet"}
	default:
		return Outcome{Why: fmt.Sprintf("container %s still has %s", name, st.Image)}
	}
}

// runsNewImage reports whether a container's status alone shows that it runs the new image.
func (r record) runsNewImage(spec *corev1.Container, st *corev1.ContainerStatus) bool {
	oldImageID := r.LastContainerStatuses[spec.Name].ImageID
	return oldImageID != "" && st.ImageID != "" && st.ImageID != oldImageID || SameImage(spec.Image, st)
}

// Ambiguous reports whether an update in progress has restarted a container whose status doesn't show whether it runs the new image, as with
// another tag of the same image. A report from the node daemon then shortens the wait.
func Ambiguous(pod *corev1.Pod) bool {
	if !Closed(pod) {
		return false
	}
	r := recordOf(pod)
	for name := range r.LastContainerStatuses {
		spec, st := Container(&pod.Spec, name), status(pod, name)
		if spec != nil && st != nil && st.State.Running != nil && r.restarted(st) && !r.runsNewImage(spec, st) {
			return true
		}
	}
	return false
}

// resizeProgress reports whether a container has the cpu and memory of its spec.
func resizeProgress(pod *corev1.Pod, spec *corev1.Container, st *corev1.ContainerStatus) Outcome {
	if hasResources(ptr.Deref(st.Resources, corev1.ResourceRequirements{}), cpuAndMemory(spec.Resources)) {
		return Outcome{Done: true}
	}
	const why = "container %s hasn't been resized"
	for _, t := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		c := podpatch.Find(pod, t)
		if c == nil || c.Status != corev1.ConditionTrue || c.Reason == "" {
			continue
		}
		return Outcome{Why: fmt.Sprintf(why+": %s", spec.Name, withMessage(c.Reason, c.Message))}
	}
	return Outcome{Why: fmt.Sprintf(why, spec.Name)}
}

// crashes is the reason for a container that the kubelet doesn't restart immediately.
const crashes = "CrashLoopBackOff"

// restarted reports whether the container is a different one than before the update. Records of OpenKruise have no container IDs: then the start
// time is compared with the time of the update.
func (r record) restarted(st *corev1.ContainerStatus) bool {
	if oldID, known := r.LastContainerIDs[st.Name]; known {
		return st.ContainerID != "" && st.ContainerID != oldID
	}
	return st.State.Running.StartedAt.After(r.UpdateTimestamp.Time)
}

// withMessage returns a reason with its message, if it has one.
func withMessage(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ", " + message
}

// GracePeriod is how long the pod's containers have to stop.
func GracePeriod(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return timing.Seconds(*s)
	}
	return defaultGrace
}

// SameImage reports whether the status reports the image of the spec: by digest if the spec has one, else by name.
func SameImage(want string, st *corev1.ContainerStatus) bool {
	if _, digest, pinned := strings.Cut(want, "@"); pinned &&
		(strings.HasSuffix(st.ImageID, digest) || strings.HasSuffix(st.Image, digest)) {
		return true
	}
	return want == st.Image || fullName(want) == fullName(st.Image)
}

// fullName returns the full name of an image: nginx is docker.io/library/nginx:latest.
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
