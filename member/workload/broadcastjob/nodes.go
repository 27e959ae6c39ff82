package broadcastjob

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
)

// state is how far a pod has come. If a node has several pods, the one with the highest state counts.
type state int

const (
	// terminating means that the pod is being deleted and has not succeeded; its node is free once it is gone.
	terminating state = iota
	// active means that the pod is pending or running.
	active
	// failed means that the pod has failed, or has restarted too often. In the latter case it may still be running.
	failed
	// succeeded means that the pod has succeeded, whether it is being deleted or not.
	succeeded
)

// stateOf returns the state of a job's pod. A pod that is being deleted has not failed, even if its phase says so: the kubelet stops it, as it
// does when a node is drained.
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

// restarts returns how often the containers of a pod have restarted in total.
func restarts(pod *corev1.Pod) int32 {
	var n int32
	for _, all := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range all {
			n += all[i].RestartCount
		}
	}
	return n
}

// concerns reports whether a change of a node may change the plan of a job. before is nil for a new node, after for a deleted one. It is a pure
// function.
func concerns(job *appsv1beta1.BroadcastJob, before, after *corev1.Node) bool {
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
	run, selects := fit(before)
	runs, selected := fit(after)
	return run != runs || selects != selected
}

// onNodes enqueues the jobs that a node event concerns.
func onNodes(cache client.Reader) handler.EventHandler {
	return ownership.OnNodes(func(ctx context.Context, before, after *corev1.Node) []ctrl.Request {
		return ownership.RequestsFor(ctx, cache, &appsv1beta1.BroadcastJobList{}, metav1.NamespaceAll, func(job *appsv1beta1.BroadcastJob) bool {
			return concerns(job, before, after)
		})
	})
}
