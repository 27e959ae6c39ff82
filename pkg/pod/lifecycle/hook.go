package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// Hooks are the hooks of a workload. The zero value has no hooks, so nothing holds a pod.
type Hooks struct{ update, remove, service *pods.LifecycleHook }

// HooksOf reads the hooks from a spec; nil has none.
func HooksOf(l *pods.Lifecycle) Hooks {
	if l == nil {
		return Hooks{}
	}
	return Hooks{update: l.InPlaceUpdate, remove: l.PreDelete, service: l.PreNormal}
}

// Hooked reports whether the pod has any of the hook's handlers; false without a hook.
func Hooked(h *pods.LifecycleHook, pod *corev1.Pod) bool {
	if h == nil {
		return false
	}
	for k, v := range h.LabelsHandler {
		if hasLabel(pod, k, v) {
			return true
		}
	}
	return slices.ContainsFunc(h.FinalizersHandler, func(f string) bool { return slices.Contains(pod.Finalizers, f) })
}

// Answered reports whether the pod has all of the hook's handlers; true without a hook.
func Answered(h *pods.LifecycleHook, pod *corev1.Pod) bool {
	if h == nil {
		return true
	}
	for k, v := range h.LabelsHandler {
		if !hasLabel(pod, k, v) {
			return false
		}
	}
	return !slices.ContainsFunc(h.FinalizersHandler, func(f string) bool { return !slices.Contains(pod.Finalizers, f) })
}

func hasLabel(pod *corev1.Pod, key, value string) bool {
	v, ok := pod.Labels[key]
	return ok && v == value
}

// HoldsUpdate reports whether an in-place update has to be prepared, and once it is, whether it has to wait. A pod in the state Updated always
// has to be prepared again if there is a hook: the hook released it for the last update.
func (h Hooks) HoldsUpdate(pod *corev1.Pod) bool {
	if Of(pod) == pods.LifecycleUpdated {
		return h.update != nil && len(h.update.LabelsHandler)+len(h.update.FinalizersHandler) > 0
	}
	return Hooked(h.update, pod)
}

// HoldsDelete reports whether a deletion has to be prepared, and once it is, whether it has to wait.
func (h Hooks) HoldsDelete(pod *corev1.Pod) bool { return Hooked(h.remove, pod) }

// HoldsService reports whether a hook has to answer before a new pod goes into service.
func (h Hooks) HoldsService() bool { return h.service != nil }

// PreparingDelete reports whether the preDelete hook has been asked to let the pod be deleted, and whether that can no longer be cancelled.
func (h Hooks) PreparingDelete(pod *corev1.Pod) (preparing, final bool) {
	preparing = Of(pod) == pods.LifecyclePreparingDelete
	return preparing, preparing && h.MarksNotReady()
}

// MarksNotReady reports whether a hook makes pods not ready, so that they need the readiness gate keys.KruisePodReady.
func (h Hooks) MarksNotReady() bool {
	return h.update != nil && h.update.MarkPodNotReady || h.remove != nil && h.remove.MarkPodNotReady
}

// InService returns the target state for a pod that should be in service and needs no other step. It is the current state if the pod has to wait
// there.
func (h Hooks) InService(pod *corev1.Pod) pods.LifecycleState {
	switch s := Of(pod); s {
	case pods.LifecyclePreparingNormal:
		if !Answered(h.service, pod) {
			return s
		}
	case pods.LifecyclePreparingUpdate, pods.LifecycleUpdating, pods.LifecycleUpdated:
		if !Answered(h.update, pod) {
			return pods.LifecycleUpdated
		}
	case pods.LifecyclePreparingDelete:
		return pods.LifecyclePreparingNormal
	case pods.LifecycleNormal:
	}
	return pods.LifecycleNormal
}

// Serve returns the write that brings a pod to the state from InService, ready as far as hooks are concerned. It applies only to the observed
// version, except for a new pod without a hook, which changes often while it starts.
func (h Hooks) Serve(pod *corev1.Pod, now time.Time) podpatch.Body {
	b := Enter(pod, h.InService(pod), now)
	if Of(pod) != pods.LifecyclePreparingNormal || h.service != nil {
		b.Observed(pod)
	}
	unblock(&b, pod, now)
	return b
}

// NeverReady reports whether the pod was never made ready as far as hooks are concerned: it has the gate but no condition.
func NeverReady(pod *corev1.Pod) bool {
	return podpatch.Gated(pod, keys.KruisePodReady) && podpatch.Find(pod, keys.KruisePodReady) == nil
}

// CancelDelete returns the patch that cancels PrepareDelete. updating: an in-place update of the pod has begun, and continues.
func (Hooks) CancelDelete(pod *corev1.Pod, updating bool, now time.Time) (podpatch.Patch, error) {
	s := pods.LifecyclePreparingNormal
	if updating {
		s = pods.LifecycleUpdating
	}
	b := Enter(pod, s, now)
	b.Observed(pod)
	unblock(&b, pod, now)
	return b.Patch(pod, podpatch.Status)
}

// PrepareUpdate returns the patch that asks the inPlaceUpdate hook to let the pod be updated. It restores the handlers that were removed for the
// last update.
func (h Hooks) PrepareUpdate(pod *corev1.Pod, now time.Time) (podpatch.Patch, error) {
	b := Enter(pod, pods.LifecyclePreparingUpdate, now)
	b.Observed(pod)
	if h.update != nil && Of(pod) == pods.LifecycleUpdated {
		for k, v := range h.update.LabelsHandler {
			b.Metadata.Labels[k] = new(v)
		}
		b.Metadata.Finalizers = slices.Clone(h.update.FinalizersHandler)
	}
	if h.update != nil && h.update.MarkPodNotReady {
		block(&b, pod, keyUpdate, now)
	}
	return b.Patch(pod, podpatch.Status)
}

// PrepareDelete returns the patch that asks the preDelete hook to let the pod be deleted.
func (h Hooks) PrepareDelete(pod *corev1.Pod, now time.Time) (podpatch.Patch, error) {
	b := Enter(pod, pods.LifecyclePreparingDelete, now)
	b.Observed(pod)
	if h.remove != nil && h.remove.MarkPodNotReady {
		block(&b, pod, keyDelete, now)
	}
	return b.Patch(pod, podpatch.Status)
}
