package control

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

const (
	// share is how many times as long as the reconciles themselves has to pass: they use a twelfth of a CPU. With a twenty-fifth, a rolling
	// update of 1,000 (simulated) pods, each replaced in 0.37 s and one at a time, became slower.
	share = 12
	// saved is how much unused time is saved at most. It allows for 400 ms of reconciles in a row, so that a change of a few pods is acted on
	// at once, even in an object with many pods.
	saved = 5 * time.Second
	// longest is the longest wait of an event, even after a reconcile on a busy machine.
	longest = 500 * time.Millisecond
	// least is the shortest wait that is worth a timer.
	least = time.Millisecond
)

// Batch makes the watch events of an object's children wait for each other, so that many of them lead to one reconcile of the object. The
// zero value is ready; it may be used concurrently.
//
// While 5,000 pods start, there are tens of thousands of events, and each requests a reconcile that reads all 5,000. The time that
// reconciles take before they write anything (reading the cache, planning) is measured. Once it exceeds a twelfth of the time that has
// passed, an event of a child waits so that others join it, for at most half a second. So a controller spends a bounded share of a CPU on
// reading and planning, however many children there are. Events of an object that was quiet before don't wait, so a rolling update of
// one pod at a time isn't delayed. Events of the object itself are never delayed, and neither are retries. Writes aren't limited, and no
// event is dropped.
type Batch struct {
	mu sync.Mutex
	// even is when an object's reconciles will have used no more than their share of the time.
	even map[types.NamespacedName]time.Time
}

// Took records how long a reconcile took until it began to write, at now.
func (b *Batch) Took(key types.NamespacedName, cost time.Duration, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.even == nil {
		b.even = map[types.NamespacedName]time.Time{}
	}
	from := b.even[key]
	if first := now.Add(-saved); from.Before(first) {
		from = first
	}
	until := from.Add(share * min(cost, saved)) // So that no cost is too long to multiply.
	if last := now.Add(longest); until.After(last) {
		until = last
	}
	b.even[key] = until
}

// Forget drops what is known about an object that is gone.
func (b *Batch) Forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.even, key)
}

// Wait returns how long an event of a child waits; 0 means not at all.
func (b *Batch) Wait(key types.NamespacedName, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.even[key].Sub(now); wait >= least {
		return wait
	}
	return 0
}

// Handler wraps h, an event handler for children, so that its requests wait.
func (b *Batch) Handler(h handler.EventHandler, c clock.PassiveClock) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, o event.CreateEvent, q adder) {
			if !o.IsInInitialList { // The initial list has its own priority, and no reconcile was measured yet.
				q = queue{q, b, c}
			}
			h.Create(ctx, o, q)
		},
		UpdateFunc:  func(ctx context.Context, o event.UpdateEvent, q adder) { h.Update(ctx, o, queue{q, b, c}) },
		DeleteFunc:  func(ctx context.Context, o event.DeleteEvent, q adder) { h.Delete(ctx, o, queue{q, b, c}) },
		GenericFunc: func(ctx context.Context, o event.GenericEvent, q adder) { h.Generic(ctx, o, queue{q, b, c}) },
	}
}

type adder = workqueue.TypedRateLimitingInterface[ctrl.Request]

// queue adds requests after the wait.
type queue struct {
	adder

	batch *Batch
	clock clock.PassiveClock
}

// Add adds r after the wait. A request that waits already is not added again, and keeps its time.
func (q queue) Add(r ctrl.Request) {
	if wait := q.batch.Wait(r.NamespacedName, q.clock.Now()); wait > 0 {
		q.AddAfter(r, wait)
		return
	}
	q.adder.Add(r)
}
