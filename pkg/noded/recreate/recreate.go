// Package recreate contains what the ContainerRecreateRequest controller and the node daemon share.
package recreate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// Began is the type of a condition of a ContainerRecreateRequest that becomes True when the request enters Recreating. It is also the reason.
// Containers started later than that are not stopped for the request.
const Began = "Recreating"

// Done reports whether a request is complete.
func Done(r *appsv1beta1.ContainerRecreateRequest) bool {
	return r.Status.CompletionTime != nil || r.Status.Phase == appsv1beta1.RecreateCompleted
}

// Cause returns a readable text about who made a request, and why.
func Cause(r *appsv1beta1.ContainerRecreateRequest) string {
	out := "ContainerRecreateRequest " + r.Name
	if by := r.Annotations[keys.RecreateRequester]; by != "" {
		out += " of " + by
	}
	if why := r.Annotations[keys.RecreateReason]; why != "" {
		out += ": " + why
	}
	return out
}

// Container returns a container in spec.containers of a pod, or nil. Other containers are not recreated.
func Container(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// Key identifies a request in the list of what keeps a pod not ready.
func Key(r metav1.Object) string { return fmt.Sprintf("%s/%s", r.GetNamespace(), r.GetName()) }

// NoReadinessGate is the reason of a condition RecreatePreGrace that is False: the pod can't be made not ready. The grace period runs
// nevertheless.
const NoReadinessGate = "NoReadinessGate"

// Agent identifies requests in the same list.
const Agent = "ContainerRecreateRequest"
