package broadcastjob

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/nodefit"
	"github.com/flotilla-io/flotilla/pkg/ownership"
)

// state is how far a pod is. Of several pods on a node the one with the highest counts.
type state int

const (
	// terminating: the pod is being deleted and has not succeeded; its node is free when it is gone.
	terminating state = iota
	// active: the pod is pending or running.
	active
	// failed: the pod has failed, or has restarted too often; in the latter case it may still run.
	failed
	// succeeded: the pod has succeeded, whether it is being deleted or not.
	succeeded
)

// stateOf reads a pod of a job. A pod that is being deleted has not failed, even if its phase says so: the kubelet stops it, as it
// does on a node that is drained.
func stateOf(pod *corev1.Pod, policy *appsv1beta1.BroadcastJobFailurePolicy) state {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return succeeded
	case pod.DeletionTimestamp != nil:
		return terminating
	case pod.Status.Phase == corev1.PodFailed, pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && restarts(pod) > policy.RestartLimit:
		return failed
	}
	return active
}

// restarts is how often the containers of a pod have restarted, in sum.
func restarts(pod *corev1.Pod) int32 {
	var n int32
	for _, all := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range all {
			n += all[i].RestartCount
		}
	}
	return n
}

// concerns reports whether a change of a node may change the plan of a job. was is nil for a new node, is for a deleted one. It is a
// pure function.
func concerns(job *appsv1beta1.BroadcastJob, was, is *corev1.Node) bool {
	if finished(job) {
		return false
	}
	m := nodefit.ForJob(&job.Spec.Template.Spec)
	fit := func(node *corev1.Node) (run, selects bool) {
		if node == nil {
			return false, false
		}
		run, _ = m.Match(node)
		return run, m.Selects(node)
	}
	run, selects := fit(was)
	runs, selected := fit(is)
	return run != runs || selects != selected
}

// onNodes enqueues the jobs that an event of a node concerns.
func onNodes(cache client.Reader) handler.EventHandler {
	return ownership.OnNodes(func(ctx context.Context, was, is *corev1.Node) []ctrl.Request {
		return ownership.RequestsFor(ctx, cache, &appsv1beta1.BroadcastJobList{}, metav1.NamespaceAll, func(job *appsv1beta1.BroadcastJob) bool {
			return concerns(job, was, is)
		})
	})
}
