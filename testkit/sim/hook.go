package sim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
)

// HookHandler handles the lifecycle hooks for the label hold=yes.
type HookHandler struct {
	// Handles reports whether a pod has such hooks.
	Handles func(*World, *corev1.Pod) bool
}

// Steps implements Actor.
func (k HookHandler) Steps(w *World) []Step {
	var out []Step
	for _, pod := range All[*corev1.Pod](w) {
		if !k.Handles(w, pod) {
			continue
		}
		if next, what := HandleHook(pod); next != nil {
			out = append(out, Step{Name: fmt.Sprintf("hook handler: %s %s", what, pod.Name), Do: func(ctx context.Context) error {
				return w.User().Update(ctx, next)
			}})
		}
	}
	return out
}

// HandleHook acts as the handler of the lifecycle hooks for the label hold=yes. It removes the label from pods that are prepared for an
// update or a deletion, and adds it to all others. next is the changed pod, or nil if there is nothing to change. what describes the change.
func HandleHook(pod *corev1.Pod) (next *corev1.Pod, what string) {
	if pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" {
		return nil, ""
	}
	_, held := pod.Labels["hold"]
	next = pod.DeepCopy()
	switch s := lifecycle.Of(pod); {
	case held && (s == pods.LifecyclePreparingUpdate || s == pods.LifecyclePreparingDelete):
		delete(next.Labels, "hold")
		return next, "lets go of"
	case !held && (s == pods.LifecycleUpdated || s == pods.LifecycleNormal):
		next.Labels["hold"] = "yes"
		return next, "takes"
	}
	return nil, ""
}
