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

// queue is where a controller takes its work from.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// keysOf says which requests an object's change asks for.
type keysOf func(client.Object) []client.ObjectKey

// follower adds a handler to informers of a cache and takes it out again when ctx ends. source.Kind leaves its handlers
// in; here the cache may be a manager's that outlives many links.
type follower struct {
	keys keysOf
}

// follow is a source of all changes of obj's kind. It is synced when its first events are queued.
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

// kinds watches in the member the kinds that rows carry, each from when it first occurs. It is a source itself, through
// which the rows controller lends it its queue. It may be used concurrently.
type kinds struct {
	cache cache.Cache

	mu        sync.Mutex
	ctx       func() context.Context // of the controller's run; nil before the start
	queue     queue
	informers map[schema.GroupVersionKind]cache.Informer
	rows      map[target]client.ObjectKey
}

// target names an object in the member, whatever its version.
type target struct {
	kind            schema.GroupKind
	namespace, name string
}

func newKinds(c cache.Cache) *kinds {
	return &kinds{cache: c, informers: map[schema.GroupVersionKind]cache.Informer{}, rows: map[target]client.ObjectKey{}}
}

// source hands the controller's queue to k when the controller starts.
func (k *kinds) source() source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.queue, k.ctx = q, func() context.Context { return ctx }
		return nil
	})
}

// enqueue asks for a reconcile over each row.
func (k *kinds) enqueue(rows ...client.ObjectKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queue == nil {
		return // Not started: the start queues every row anyway.
	}
	for _, row := range rows {
		k.queue.Add(reconcile.Request{NamespacedName: row})
	}
}

// follow makes changes of an object wake its row, and watches its kind if nobody did before.
func (k *kinds) follow(gvk schema.GroupVersionKind, t target, row client.ObjectKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows[t] = row
	if k.informers[gvk] != nil || k.ctx == nil {
		return nil
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	informer, err := k.cache.GetInformer(k.ctx(), obj, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	if err := (follower{keys: k.rowOf}).add(k.ctx(), informer, k.queue); err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	k.informers[gvk] = informer
	return nil
}

// forget is the reverse of follow; the kind stays watched.
func (k *kinds) forget(row client.ObjectKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for t, r := range k.rows {
		if r == row {
			delete(k.rows, t)
		}
	}
}

// synced tells whether the cache may be asked for objects of this kind.
func (k *kinds) synced(gvk schema.GroupVersionKind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	informer := k.informers[gvk]
	return informer != nil && informer.HasSynced()
}

func (k *kinds) rowOf(o client.Object) []client.ObjectKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := target{kind: o.GetObjectKind().GroupVersionKind().GroupKind(), namespace: o.GetNamespace(), name: o.GetName()}
	if row, ok := k.rows[t]; ok {
		return []client.ObjectKey{row}
	}
	return nil
}

// waker queues one request for a controller on demand. It may be used concurrently.
type waker struct {
	key client.ObjectKey

	mu    sync.Mutex
	queue queue
}

// source lends the waker its controller's queue.
func (w *waker) source() source.Source {
	return source.Func(func(_ context.Context, q queue) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queue = q
		return nil
	})
}

// wake does nothing before the controller started: that queues the request anyway.
func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.Add(reconcile.Request{NamespacedName: w.key})
	}
}
