// Package kindwatch watches objects of kinds that are known at run time only, each kind for as long as somebody follows it.
package kindwatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Keys maps a change to the requests that it enqueues: was is nil for a new object, is for one that is gone. The context is the controller's.
type Keys func(ctx context.Context, was, is client.Object) []client.ObjectKey

// Handle makes the changes that an informer reports enqueue requests, until ctx ends. source.Kind never removes its handlers, but a cache
// may outlive a controller.
func Handle(ctx context.Context, informer cache.Informer, q Queue, keys Keys) error {
	enqueue := func(was, is any) {
		for _, key := range keys(ctx, objectOf(was), objectOf(is)) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(is any) { enqueue(nil, is) },
		UpdateFunc: enqueue,
		DeleteFunc: func(was any) { enqueue(was, nil) },
	})
	if err != nil {
		return fmt.Errorf("add handler: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(handle) })
	return nil
}

// objectOf returns an object of an informer; nil if it is none.
func objectOf(o any) client.Object {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	object, _ := o.(client.Object)
	return object
}

// Watches are the watches of one controller. It may be used concurrently.
//
// The cache is the controller's own, so that an informer that is removed is nobody else's. A manager's cache would save nothing: what its
// controllers watch are typed objects, and these are not.
type Watches struct {
	cache cache.Cache
	keys  Keys

	mu        sync.Mutex
	ctx       func() context.Context // of the controller's run; nil before the start
	queue     Queue
	informers map[schema.GroupVersionKind]cache.Informer
	followed  map[client.ObjectKey][]schema.GroupVersionKind
}

// New returns watches without a kind, of objects that a cache reads.
func New(c cache.Cache, keys Keys) *Watches {
	return &Watches{
		cache: c, keys: keys, informers: map[schema.GroupVersionKind]cache.Informer{},
		followed: map[client.ObjectKey][]schema.GroupVersionKind{},
	}
}

// Source is a source that takes the controller's queue when the controller starts. Before that no kind is watched.
func (w *Watches) Source() source.Source {
	return source.Func(func(ctx context.Context, q Queue) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queue, w.ctx = q, func() context.Context { return ctx }
		return nil
	})
}

// Enqueue adds requests to the queue. Before the start it does nothing, because the start enqueues all.
func (w *Watches) Enqueue(keys ...client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enqueue(keys...)
}

func (w *Watches) enqueue(keys ...client.ObjectKey) {
	if w.queue == nil {
		return
	}
	for _, key := range keys {
		w.queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// Follow watches kinds for who follows them, and those no more that only who followed before. It starts the watches that there are not.
func (w *Watches) Follow(who client.ObjectKey, kinds ...schema.GroupVersionKind) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.followed[who]
	w.followed[who] = slices.Clone(kinds)
	w.release(was)
	if w.ctx == nil {
		return nil
	}
	for _, kind := range kinds {
		if w.informers[kind] != nil {
			continue
		}
		informer, err := w.cache.GetInformer(w.ctx(), OfKind(kind), cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
		if err := Handle(w.ctx(), informer, w.queue, w.keys); err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
		w.informers[kind] = informer
	}
	return nil
}

// Forget undoes Follow.
func (w *Watches) Forget(who client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.followed[who]
	delete(w.followed, who)
	w.release(was)
}

// release ends the watches on those kinds that nobody follows.
func (w *Watches) release(kinds []schema.GroupVersionKind) {
	for _, kind := range kinds {
		if len(w.followers(kind)) == 0 {
			w.stop(kind)
		}
	}
}

func (w *Watches) followers(kind schema.GroupVersionKind) []client.ObjectKey {
	var out []client.ObjectKey
	for who, kinds := range w.followed {
		if slices.Contains(kinds, kind) {
			out = append(out, who)
		}
	}
	return out
}

// Wake enqueues who follows a kind.
func (w *Watches) Wake(kind schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enqueue(w.followers(kind)...)
}

// Stop ends the watch on a kind, such as one that is not served and could only fail. The next Follow starts it again.
func (w *Watches) Stop(kind schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop(kind)
}

func (w *Watches) stop(kind schema.GroupVersionKind) {
	if w.informers[kind] == nil {
		return
	}
	delete(w.informers, kind)
	_ = w.cache.RemoveInformer(w.ctx(), OfKind(kind)) // It fails for what is no kind only.
}

// Kinds returns the kinds that are watched, sorted.
func (w *Watches) Kinds() []schema.GroupVersionKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.informers), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
}

// Synced reports whether the cache holds the objects of a kind.
func (w *Watches) Synced(kind schema.GroupVersionKind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	informer := w.informers[kind]
	return informer != nil && informer.HasSynced()
}

// OfKind returns an empty object of a kind.
func OfKind(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}
