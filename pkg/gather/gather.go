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
	// times is how many times the cost of a reconcile its object's events wait: a fifth of a processor goes into looking at most.
	times = 4
	// longest is how long an event waits at most, also after a reconcile that the machine had no time for.
	longest = 500 * time.Millisecond
	// least is what is not worth a timer.
	least = time.Millisecond
)

// Events remembers what passes cost. The zero value is ready; it may be used concurrently.
type Events struct {
	cost sync.Map // time.Duration by types.NamespacedName
}

// Took notes how long a reconcile took until it began to write.
func (e *Events) Took(key types.NamespacedName, cost time.Duration) { e.cost.Store(key, cost) }

// Forget drops what is known of an object that is gone.
func (e *Events) Forget(key types.NamespacedName) { e.cost.Delete(key) }

// Wait is how long an event of a child waits; 0 means not at all.
func (e *Events) Wait(key types.NamespacedName) time.Duration {
	took, _ := e.cost.Load(key)
	cost, _ := took.(time.Duration)
	wait := min(times*cost, longest)
	if wait < least {
		return 0
	}
	return wait
}

// Handler is h for events of children: what it adds to the queue waits.
func (e *Events) Handler(h handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, o event.CreateEvent, q adder) {
			if !o.IsInInitialList { // The first list has a priority of its own, and nothing is known of costs.
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

// queue adds after the wait.
type queue struct {
	adder

	events *Events
}

// Add adds after the wait. What waits already is not added again, and keeps its time.
func (q queue) Add(r ctrl.Request) {
	if wait := q.events.Wait(r.NamespacedName); wait > 0 {
		q.AddAfter(r, wait)
		return
	}
	q.adder.Add(r)
}
