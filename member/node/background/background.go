// Package background runs what outlives the reconcile that begins it, such as the pull of an image, for controllers of the one object of a
// kind that is about the node.
package background

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A failed reconcile is retried after firstRetry, doubling up to lastRetry.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Pool holds tasks by key, each with a state that others can read. The zero value is ready; it is safe for concurrent use.
type Pool[K comparable, S any] struct {
	running sync.WaitGroup
	mu      sync.Mutex
	tasks   map[K]*task[S]
}

type task[S any] struct {
	state  S
	cancel context.CancelFunc
}

// States returns the states of all tasks.
func (p *Pool[K, S]) States() map[K]S {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[K]S, len(p.tasks))
	for key, t := range p.tasks {
		out[key] = t.state
	}
	return out
}

// Len returns how many tasks there are.
func (p *Pool[K, S]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tasks)
}

// Begin starts a task, and ends the one with the same key. Its context ends with ctx, or when the task is ended. It changes its state by
// update. A task that returns keeps its state until it is ended.
func (p *Pool[K, S]) Begin(ctx context.Context, key K, state S, run func(ctx context.Context, update func(func(*S)))) {
	ctx, cancel := context.WithCancel(ctx)
	t := &task[S]{state: state, cancel: cancel}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.tasks[key]; before != nil {
		before.cancel()
	}
	if p.tasks == nil {
		p.tasks = map[K]*task[S]{}
	}
	p.tasks[key] = t
	p.running.Go(func() {
		defer cancel()
		run(ctx, func(change func(*S)) {
			p.mu.Lock()
			defer p.mu.Unlock()
			change(&t.state)
		})
	})
}

// End ends tasks, and forgets them.
func (p *Pool[K, S]) End(keys ...K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		if t := p.tasks[key]; t != nil {
			t.cancel()
			delete(p.tasks, key)
		}
	}
}

// Wait waits until all tasks have returned.
func (p *Pool[K, S]) Wait() { p.running.Wait() }

// Pause waits for d, and reports whether it did: if ctx ends, it doesn't.
func Pause(ctx context.Context, c clock.Clock, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// WithTimeout returns a context that ends after d with the given cause. The caller has to cancel it.
func WithTimeout(ctx context.Context, c clock.Clock, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.NewTimer(d)
	go func() {
		select {
		case <-timer.C():
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// Requests returns a function that requests a reconcile of an object, and the source of these requests for a controller.
func Requests(o client.Object) (func(), source.Source) {
	events := make(chan event.GenericEvent, 1)
	return func() {
		select {
		case events <- event.GenericEvent{Object: o}:
		default: // One event is enough for all changes.
		}
	}, source.Channel(events, &handler.EnqueueRequestForObject{})
}

// Queue returns the options of a controller of one object.
func Queue() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 1,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
	}
}
