package agent

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// queue is the work queue of a controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// keysOf maps an object to the requests that its change enqueues.
type keysOf func(client.Object) []client.ObjectKey

// follower adds a handler to informers of a cache and removes it when ctx ends. source.Kind never removes its handlers, but
// here the cache may be a manager's, which outlives many links.
type follower struct {
	keys keysOf
}

// follow is a source of all changes of obj's kind. It is synced once its first events are queued.
func follow(c cache.Cache, obj client.Object, keys keysOf) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", obj, err)
		}
		if err := (follower{keys: keys}).add(ctx, informer, q); err != nil {
			return fmt.Errorf("watch %T: %w", obj, err)
		}
		return nil
	})
}

func (f follower) add(ctx context.Context, informer cache.Informer, q queue) error {
	enqueue := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		o, ok := obj.(client.Object)
		if !ok {
			return
		}
		for _, key := range f.keys(o) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, obj any) { enqueue(obj) },
		DeleteFunc: enqueue,
	})
	if err != nil {
		return fmt.Errorf("add handler: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(handle) })
	return nil
}

// watches holds the watches on kinds in the member, each from when a row first has an object of the kind. It is a source
// itself, which gives it the queue of the rows controller. It may be used concurrently.
type watches struct {
	cache cache.Cache

	mu        sync.Mutex
	ctx       func() context.Context // of the controller's run; nil before the start
	queue     queue
	informers map[schema.GroupVersionKind]cache.Informer
	rows      map[target]client.ObjectKey
}

// target names an object in the member, of any version.
type target struct {
	kind            schema.GroupKind
	namespace, name string
}

func newWatches(c cache.Cache) *watches {
	return &watches{cache: c, informers: map[schema.GroupVersionKind]cache.Informer{}, rows: map[target]client.ObjectKey{}}
}

// source takes the controller's queue when the controller starts.
func (w *watches) source() source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queue, w.ctx = q, func() context.Context { return ctx }
		return nil
	})
}

// enqueue adds rows to the queue.
func (w *watches) enqueue(rows ...client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		return // Not started yet; the start enqueues every row.
	}
	for _, row := range rows {
		w.queue.Add(reconcile.Request{NamespacedName: row})
	}
}

// follow makes changes of an object enqueue its row, and starts a watch on its kind if there is none.
func (w *watches) follow(gvk schema.GroupVersionKind, t target, row client.ObjectKey) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[t] = row
	if w.informers[gvk] != nil || w.ctx == nil {
		return nil
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	informer, err := w.cache.GetInformer(w.ctx(), obj, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	if err := (follower{keys: w.rowOf}).add(w.ctx(), informer, w.queue); err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	w.informers[gvk] = informer
	return nil
}

// forget undoes follow. The watch on the kind stays.
func (w *watches) forget(row client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t, r := range w.rows {
		if r == row {
			delete(w.rows, t)
		}
	}
}

// synced reports whether the cache holds the objects of this kind.
func (w *watches) synced(gvk schema.GroupVersionKind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	informer := w.informers[gvk]
	return informer != nil && informer.HasSynced()
}

func (w *watches) rowOf(o client.Object) []client.ObjectKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := target{kind: o.GetObjectKind().GroupVersionKind().GroupKind(), namespace: o.GetNamespace(), name: o.GetName()}
	if row, ok := w.rows[t]; ok {
		return []client.ObjectKey{row}
	}
	return nil
}

// trigger enqueues one request of a controller on demand. It may be used concurrently.
type trigger struct {
	key client.ObjectKey

	mu    sync.Mutex
	queue queue
}

// source takes the controller's queue when the controller starts.
func (t *trigger) source() source.Source {
	return source.Func(func(_ context.Context, q queue) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.queue = q
		return nil
	})
}

// fire does nothing before the controller has started, which enqueues the request anyway.
func (t *trigger) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.Add(reconcile.Request{NamespacedName: t.key})
	}
}
