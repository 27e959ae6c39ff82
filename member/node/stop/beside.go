package stop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// patience is how long a worker waits for a reconcile. Reconciles that take longer mostly wait for a preStop hook or a grace period.
const patience = 250 * time.Millisecond

// Complete adds a controller whose reconciles stop containers of the pods on one node. A long reconcile continues outside the workers, so pods
// whose containers take long to stop, however many there are, don't delay other pods.
func Complete(b *ctrl.Builder, r reconcile.Reconciler, c clock.Clock) error {
	all := newBeside(r, c)
	return b.WithOptions(queue()).WatchesRawSource(all.source()).Complete(all) //nolint:wrapcheck // The caller says which controller.
}

// beside runs the reconciles of a controller. At most one runs per pod, and each ends with the container that it stops, so there are at most
// as many as pods on the node.
type beside struct {
	inner   reconcile.Reconciler
	clock   clock.Clock
	limiter workqueue.TypedRateLimiter[ctrl.Request]

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
	running map[ctrl.Request]*lasting
}

// lasting is a reconcile that has begun.
type lasting struct {
	result ctrl.Result
	err    error
	// done is closed when the reconcile has ended. left means that the worker did not wait for that. again means that there was another event
	// meanwhile.
	done        chan struct{}
	left, again bool
}

func newBeside(r reconcile.Reconciler, c clock.Clock) *beside {
	return &beside{inner: r, clock: c, limiter: limiter(), running: map[ctrl.Request]*lasting{}}
}

// source emits no events. It only gives access to the queue.
func (b *beside) source() source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.queue = q
		return nil
	})
}

// Reconcile starts a reconcile, and returns its result if it ends soon.
func (b *beside) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b.mu.Lock()
	if current := b.running[req]; current != nil {
		current.again = true
		b.mu.Unlock()
		return ctrl.Result{}, nil
	}
	current := &lasting{done: make(chan struct{})}
	b.running[req] = current
	b.mu.Unlock()
	go b.run(ctx, req, current) // ctx belongs to the controller: reconciles have no timeout.
	timer := b.clock.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-current.done:
	case <-timer.C():
		if b.detach(current) {
			return ctrl.Result{}, nil
		}
	}
	if current.err == nil {
		b.limiter.Forget(req)
	}
	return current.result, current.err
}

// detach lets a reconcile continue on its own, unless it has ended.
func (b *beside) detach(run *lasting) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-run.done:
		return false
	default:
		run.left = true
		return true
	}
}

func (b *beside) run(ctx context.Context, req ctrl.Request, reconcile *lasting) {
	reconcile.result, reconcile.err = b.recovered(ctx, req)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, req)
	close(reconcile.done)
	if !reconcile.left || ctx.Err() != nil {
		return
	}
	switch {
	case reconcile.err != nil:
		ctrl.LoggerFrom(ctx).Error(reconcile.err, "Reconciler error")
		b.queue.AddAfter(req, b.limiter.When(req))
	case reconcile.result.RequeueAfter > 0:
		b.limiter.Forget(req)
		b.queue.AddAfter(req, reconcile.result.RequeueAfter)
	default:
		b.limiter.Forget(req)
	}
	if reconcile.again {
		b.queue.Add(req)
	}
}

// recovered returns a panic as an error, like a controller does.
func (b *beside) recovered(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v [recovered]", p)
		}
	}()
	return b.inner.Reconcile(ctx, req) //nolint:wrapcheck // It is the reconciler's own.
}
