package sim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
)

// HookHandler serves hooks of the label hold=yes.
type HookHandler struct {
	// Serves reports whether a pod has such hooks.
	Serves func(*World, *corev1.Pod) bool
}

// Steps implements Actor.
func (k HookHandler) Steps(w *World) []Step {
	var out []Step
	for _, pod := range All[*corev1.Pod](w) {
		if !k.Serves(w, pod) {
			continue
		}
		if next, what := HandleHook(pod); next != nil {
			out = append(out, Step{Name: fmt.Sprintf("keeper %s %s", what, pod.Name), Do: func(ctx context.Context) error {
				return w.User().Update(ctx, next)
			}})
		}
	}
	return out
}

// HandleHook is a pod as whoever serves hooks of the label hold=yes makes it: he lets go of pods that are to be updated or deleted,
// and holds those that are in service, or shall be. It is nil if he leaves the pod as it is; what says what he does.
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
