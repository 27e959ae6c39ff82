package podcontrol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// operation returns the operation that a guard sees in a step; empty if there is none. Taking a pod out of service is the first part of its
// update, and asking a hook to allow that comes before.
func operation(s *podset.Step) podwebhook.Operation {
	if s.Kind == rollout.StepDelete {
		return podwebhook.Delete
	}
	updates := []rollout.StepKind{rollout.StepPrepareUpdate, rollout.StepMarkUnready, rollout.StepUpdateInPlace}
	switch u := s.Pod.InPlace; {
	case !slices.Contains(updates, s.Kind):
		return ""
	case u.Restarts(s.Pod.Object):
		return podwebhook.Update
	case len(u.Resources) > 0:
		return podwebhook.Resize
	}
	return ""
}

// allowed returns the steps that the guards probably allow, and the refusals for the others.
func (a Applier) allowed(ctx context.Context, steps []podset.Step) (allowed []podset.Step, refusals []string) {
	if len(a.Guards) == 0 || len(steps) == 0 {
		return steps, nil
	}
	requests := make([]podwebhook.Request, 0, len(steps))
	for i := range steps {
		requests = append(requests, podwebhook.Request{Operation: operation(&steps[i]), Old: steps[i].Pod.Object})
	}
	for i, refusal := range a.Guards.Foreseen(ctx, requests) {
		if refusal == nil {
			allowed = append(allowed, steps[i])
		} else {
			refusals = append(refusals, fmt.Sprintf("%s: %s", steps[i].Pod.Object.Name, refusal.Message))
		}
	}
	return allowed, refusals
}

// guardCheck returns a function that asks the guards before a pod is taken out of service; nil for other steps. No webhook sees that request,
// because it writes the status, and by the time of the update that follows the pod is no longer available.
func (a Applier) guardCheck(s *podset.Step) func(context.Context) error {
	if len(a.Guards) == 0 || s.Kind != rollout.StepMarkUnready {
		return nil
	}
	request := podwebhook.Request{Operation: operation(s), Old: s.Pod.Object}
	return func(ctx context.Context) error {
		refusal, err := a.Guards.Check(ctx, request)
		if err != nil {
			return fmt.Errorf("check whether %s may be updated: %w", request.Old.Name, err)
		}
		if refusal != nil {
			return refusedError{fmt.Errorf("%s: %w", request.Old.Name, errors.New(refusal.Message))}
		}
		return nil
	}
}

// waitingObjects are objects that wait: for guards or a PodDisruptionBudget, or for the pod webhook.
type waitingObjects struct {
	mu sync.Mutex
	// keys maps the waiting objects to the time since when they wait.
	keys map[types.NamespacedName]time.Time
}

// set records whether an object waits now, and reports whether it already did.
func (h *waitingObjects) set(key types.NamespacedName, waits bool, now time.Time) (before bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, before = h.keys[key]
	switch {
	case !waits:
		delete(h.keys, key)
	case before:
	case h.keys == nil:
		h.keys = map[types.NamespacedName]time.Time{key: now}
	default:
		h.keys[key] = now
	}
	return before
}

// since returns the time since when an object waits; false if it doesn't.
func (h *waitingObjects) since(key types.NamespacedName) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, waits := h.keys[key]
	return at, waits
}

// wakeNamespace enqueues the waiting objects in the namespace of a guard's object when that object changes.
func (h *waitingObjects) wakeNamespace() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		h.mu.Lock()
		defer h.mu.Unlock()
		var out []reconcile.Request
		for key := range h.keys {
			if key.Namespace == o.GetNamespace() {
				out = append(out, reconcile.Request{NamespacedName: key})
			}
		}
		return out
	})
}

// wakeAll enqueues all waiting objects.
func (h *waitingObjects) wakeAll() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		h.mu.Lock()
		defer h.mu.Unlock()
		out := make([]reconcile.Request, 0, len(h.keys))
		for key := range h.keys {
			out = append(out, reconcile.Request{NamespacedName: key})
		}
		return out
	})
}
