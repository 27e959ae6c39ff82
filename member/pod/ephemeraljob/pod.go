package ephemeraljob

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// state is how far a job's containers are in a pod.
type state int

const (
	// waiting: none of them runs or has failed, and some have not finished.
	waiting state = iota
	// running: some run, and none has failed.
	running
	// succeeded: all finished with exit code 0.
	succeeded
	// failed: one has failed. Others may still run.
	failed
)

// isOf reports whether a container belongs to the job with that UID.
func isOf(c *corev1.EphemeralContainer, job types.UID) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == keys.EphemeralJobID && e.Value == string(job) })
}

// has reports whether a pod has containers of a job.
func has(pod *corev1.Pod, job types.UID) bool {
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return isOf(&c, job) })
}

// stateOf reads a job's containers in a pod that has them. open means that some have not finished. why is why the first failed one failed.
func stateOf(pod *corev1.Pod, job types.UID) (current state, open bool, why string) {
	runs := false
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if !isOf(c, job) {
			continue
		}
		fault := ""
		switch st := statusOf(pod, c.Name); {
		case st.Terminated != nil && st.Terminated.ExitCode == 0:
		case st.Terminated != nil:
			fault = fmt.Sprintf("%s ended with exit code %d", c.Name, st.Terminated.ExitCode)
		case st.Waiting != nil && st.Waiting.Reason == cannotRun:
			fault = c.Name + " could not be run: " + st.Waiting.Message
		case podpatch.Ended(pod):
			fault = c.Name + " had not ended when the pod did"
		default:
			open = true
			runs = runs || st.Running != nil
		}
		if why == "" {
			why = fault
		}
	}
	switch {
	case why != "":
		current = failed
	case runs:
		current = running
	case open:
		current = waiting
	default:
		current = succeeded
	}
	return current, open, why
}

// cannotRun is the kubelet's reason for a container that it created but could not start. The kubelet doesn't retry then. For other reasons,
// such as an image that can't be pulled, it does.
const cannotRun = "RunContainerError"

// statusOf returns the state of an ephemeral container. It is zero if the kubelet has not reported it.
func statusOf(pod *corev1.Pod, container string) corev1.ContainerState {
	for i := range pod.Status.EphemeralContainerStatuses {
		if st := &pod.Status.EphemeralContainerStatuses[i]; st.Name == container {
			return st.State
		}
	}
	return corev1.ContainerState{}
}

// takes reports whether a pod without containers of a job could get them: it is selected, has not terminated, is not a static pod, and has no
// ephemeral container with the same name.
func takes(pod *corev1.Pod, by labels.Selector, template []corev1.EphemeralContainer) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static || !podpatch.Active(pod) || !by.Matches(labels.Set(pod.Labels)) {
		return false
	}
	return !slices.ContainsFunc(pod.Spec.EphemeralContainers, func(existing corev1.EphemeralContainer) bool {
		return slices.ContainsFunc(template, func(c corev1.EphemeralContainer) bool { return c.Name == existing.Name })
	})
}

// ofAny reports whether a pod has containers of any job.
func ofAny(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == keys.EphemeralJobID })
	})
}

// podChanged reports whether an update of a pod may matter to a job. Every update of a pod with containers does: a reconcile may wait for
// that version.
func podChanged(before, after client.Object) bool {
	oldPod, wasPod := before.(*corev1.Pod)
	newPod, isPod := after.(*corev1.Pod)
	if !wasPod || !isPod {
		return true
	}
	return ofAny(newPod) || oldPod.UID != newPod.UID || oldPod.Spec.NodeName != newPod.Spec.NodeName ||
		oldPod.Status.Phase != newPod.Status.Phase ||
		(oldPod.DeletionTimestamp == nil) != (newPod.DeletionTimestamp == nil) || !maps.Equal(oldPod.Labels, newPod.Labels) ||
		len(oldPod.Spec.EphemeralContainers) != len(newPod.Spec.EphemeralContainers)
}

// forPod returns the jobs that a pod concerns: those whose containers it has, and those that select it.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return ownership.RequestsFor(ctx, r.Client, &appsv1alpha1.EphemeralJobList{}, pod.Namespace, func(job *appsv1alpha1.EphemeralJob) bool {
		return concerns(job, pod)
	})
}

// concerns reports whether a pod may matter to a job.
func concerns(job *appsv1alpha1.EphemeralJob, pod *corev1.Pod) bool {
	return has(pod, job.UID) || !finished(job) && ownership.Selects(job.Spec.Selector, pod)
}
