package gather

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

const (
	// times is the wait of an event as a multiple of the time of a reconcile: at most a fiftieth of a CPU is spent on
	// reconciles. 1,000 pods are planned in 2 ms, so an event waits for 100 ms, which is little beside the seconds that a
	// pod takes to start.
	times = 49
	// longest is the longest wait of an event, also after a reconcile on a busy machine.
	longest = 500 * time.Millisecond
	// least is the shortest wait that is worth a timer.
	least = time.Millisecond
)

// Events remembers how long reconciles take. The zero value is ready; it may be used concurrently.
type Events struct {
	cost sync.Map // time.Duration by types.NamespacedName
}

// Took records how long a reconcile took until it began to write.
func (e *Events) Took(key types.NamespacedName, cost time.Duration) { e.cost.Store(key, cost) }

// Forget drops what is known about an object that is gone.
func (e *Events) Forget(key types.NamespacedName) { e.cost.Delete(key) }

// Wait returns how long an event of a child waits; 0 means not at all.
func (e *Events) Wait(key types.NamespacedName) time.Duration {
	took, _ := e.cost.Load(key)
	cost, _ := took.(time.Duration)
	wait := min(times*cost, longest)
	if wait < least {
		return 0
	}
	return wait
}

// Handler wraps h, an event handler for children, so that its requests wait.
func (e *Events) Handler(h handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, o event.CreateEvent, q adder) {
			if !o.IsInInitialList { // The initial list has its own priority, and no reconcile was measured yet.
				q = queue{q, e}
			}
			h.Create(ctx, o, q)
		},
		UpdateFunc:  func(ctx context.Context, o event.UpdateEvent, q adder) { h.Update(ctx, o, queue{q, e}) },
		DeleteFunc:  func(ctx context.Context, o event.DeleteEvent, q adder) { h.Delete(ctx, o, queue{q, e}) },
		GenericFunc: func(ctx context.Context, o event.GenericEvent, q adder) { h.Generic(ctx, o, queue{q, e}) },
	}
}

type adder = workqueue.TypedRateLimitingInterface[ctrl.Request]

// queue adds requests after the wait.
type queue struct {
	adder

	events *Events
}

// Add adds r after the wait. A request that waits already is not added again, and keeps its time.
func (q queue) Add(r ctrl.Request) {
	if wait := q.events.Wait(r.NamespacedName); wait > 0 {
		q.AddAfter(r, wait)
		return
	}
	q.adder.Add(r)
}
