package groupwrite

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// timeout ends a group's reads and writes, including all retries. It is shorter than an API server waits for a webhook (10 s by default).
const timeout = 8 * time.Second

// memory is how long a written object is kept at most for the next group, in addition to the cache. Without it a group that begins before the
// cache shows the last write would begin with a conflict.
const memory = time.Minute

// Object is a pointer to an API type with a status.
type Object[T any] interface {
	*T
	client.Object
	DeepCopyInto(into *T)
}

// Writer changes statuses of objects of one type. It is safe for concurrent use.
type Writer[T any, P Object[T]] struct {
	cached client.Client
	live   client.Reader

	mu     sync.Mutex
	groups map[types.NamespacedName]*group[P]
}

// group are the requests for one object.
type group[P any] struct {
	// waiting are the requests for the next write.
	waiting []request[P]
	// running: a goroutine is processing them.
	running bool
	// last is the object as last written, nil if unknown; only the running goroutine uses it.
	last P
	// forget drops the group once it has been unused for a while; only the running goroutine sets it.
	forget *time.Timer
}

type request[P any] struct {
	change func(P) bool
	done   chan error
}

// New returns a Writer. It reads and writes through cached. After a conflict, and for objects missing in the cache, it reads from live, the API
// server.
func New[T any, P Object[T]](cached client.Client, live client.Reader) *Writer[T, P] {
	return &Writer[T, P]{cached: cached, live: live, groups: map[types.NamespacedName]*group[P]{}}
}

// Do lets change edit the status of an object, and returns nil once it is written. If change returns false it must not have edited anything; if
// all requests in its group return false, nothing is written, and the state that change saw may be as old as the cache.
//
// change may be called more than once, with a different state each time; only its last call counts. It is called in another goroutine, and never
// after Do has returned nil.
//
// After an error, including one from ctx, the change may or may not have been written. For an object that doesn't exist, the error is recognized
// by apierrors.IsNotFound.
func (w *Writer[T, P]) Do(ctx context.Context, key types.NamespacedName, change func(P) bool) error {
	r := request[P]{change: change, done: make(chan error, 1)}
	w.mu.Lock()
	g := w.groups[key]
	if g == nil {
		g = &group[P]{}
		w.groups[key] = g
	}
	g.waiting = append(g.waiting, r)
	if !g.running {
		g.running = true
		go w.run(context.WithoutCancel(ctx), key, g) // It also serves other requests.
	}
	w.mu.Unlock()
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("write the status of %s: %w", key, ctx.Err())
	}
}

// run serves a group until no request waits.
func (w *Writer[T, P]) run(ctx context.Context, key types.NamespacedName, g *group[P]) {
	for {
		w.mu.Lock()
		requests := g.waiting
		g.waiting = nil
		if len(requests) == 0 {
			g.running = false
			if g.forget == nil {
				g.forget = time.AfterFunc(memory, func() { w.forget(key, g) })
			} else {
				g.forget.Reset(memory)
			}
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		err := w.write(ctx, key, g, requests)
		for _, r := range requests {
			r.done <- err
		}
	}
}

// forget drops an unused group.
func (w *Writer[T, P]) forget(key types.NamespacedName, g *group[P]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.running && w.groups[key] == g {
		delete(w.groups, key)
	}
}

// write evaluates all requests with the newest known state, and writes the result. A panic becomes an error for all of them: in this goroutine
// nothing else would keep it from ending the process.
func (w *Writer[T, P]) write(ctx context.Context, key types.NamespacedName, g *group[P], requests []request[P]) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.last, err = nil, fmt.Errorf("write the status of %s: panic: %v", key, p)
			ctrl.LoggerFrom(ctx).Error(err, "A request panicked", "stack", string(debug.Stack()))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	base, err := w.newest(ctx, key, g.last)
	for ; err == nil; base, err = w.get(ctx, w.live, key) {
		changed := false
		for _, r := range requests {
			changed = r.change(base) || changed
		}
		if !changed {
			return nil
		}
		err := w.cached.Status().Update(ctx, base)
		if err == nil {
			g.last = base
			return nil
		}
		g.last = nil // After an error other than a conflict it may have been written.
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("write the status of %s: %w", key, err)
		}
	}
	return fmt.Errorf("get %s: %w", key, err)
}

// newest returns a copy of the object as written by this Writer or as in the cache, whichever is newer.
func (w *Writer[T, P]) newest(ctx context.Context, key types.NamespacedName, last P) (P, error) {
	cached, err := w.get(ctx, w.cached, key)
	switch {
	case apierrors.IsNotFound(err): // The cache may not have it yet.
		return w.get(ctx, w.live, key)
	case err != nil || last == nil:
		return cached, err
	}
	if order, err := resourceversion.CompareResourceVersion(last.GetResourceVersion(), cached.GetResourceVersion()); err == nil && order > 0 {
		last.DeepCopyInto(cached)
	}
	return cached, nil
}

func (w *Writer[T, P]) get(ctx context.Context, r client.Reader, key types.NamespacedName) (P, error) {
	into := P(new(T))
	return into, r.Get(ctx, key, into)
}
