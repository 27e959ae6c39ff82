// Package kindwatch watches objects whose kinds are only known at run time, each kind for as long as it has a follower.
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

// Keys maps a change to the requests that it enqueues: the first object is nil if it is new, the second if it is gone. The context is the
// controller's.
type Keys func(ctx context.Context, before, after client.Object) []client.ObjectKey

// Handle makes the changes that an informer reports enqueue requests, until ctx ends. source.Kind never removes its handlers, but a cache may
// outlive a controller.
func Handle(ctx context.Context, informer cache.Informer, q Queue, keys Keys) error {
	enqueue := func(before, after any) {
		for _, key := range keys(ctx, objectOf(before), objectOf(after)) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { enqueue(nil, o) },
		UpdateFunc: enqueue,
		DeleteFunc: func(o any) { enqueue(o, nil) },
	})
	if err != nil {
		return fmt.Errorf("add handler: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(handle) })
	return nil
}

// objectOf returns an object from an informer; nil if it is something else.
func objectOf(o any) client.Object {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	object, _ := o.(client.Object)
	return object
}

// Watches are the watches of one controller. They may be used concurrently.
//
// The cache belongs to the controller alone, so that removing an informer affects nobody else. Sharing the manager's cache would save nothing:
// what its controllers watch are typed objects, and these are not.
type Watches struct {
	cache cache.Cache
	keys  Keys

	mu        sync.Mutex
	ctx       func() context.Context // of the controller's run; nil before the start
	queue     Queue
	informers map[schema.GroupVersionKind]cache.Informer
	followed  map[client.ObjectKey][]schema.GroupVersionKind
}

// New returns a Watches without kinds that reads objects through a cache.
func New(c cache.Cache, keys Keys) *Watches {
	return &Watches{
		cache: c, keys: keys, informers: map[schema.GroupVersionKind]cache.Informer{},
		followed: map[client.ObjectKey][]schema.GroupVersionKind{},
	}
}

// Source returns a source that takes over the controller's queue when the controller starts. Before that no kind is watched.
func (w *Watches) Source() source.Source {
	return source.Func(func(ctx context.Context, q Queue) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queue, w.ctx = q, func() context.Context { return ctx }
		return nil
	})
}

// Enqueue adds requests to the queue. It does nothing before the start, because the start enqueues everything.
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

// Follow makes who follow exactly these kinds. It starts the missing watches, and ends watches on kinds that only who followed before.
func (w *Watches) Follow(who client.ObjectKey, kinds ...schema.GroupVersionKind) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	previous := w.followed[who]
	w.followed[who] = slices.Clone(kinds)
	w.release(previous)
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
	kinds := w.followed[who]
	delete(w.followed, who)
	w.release(kinds)
}

// release ends the watches on the kinds that have no follower.
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

// Wake enqueues the followers of a kind.
func (w *Watches) Wake(kind schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enqueue(w.followers(kind)...)
}

// Stop ends the watch on a kind, for example one that isn't served, so that the watch could only fail. The next Follow starts it again.
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
	_ = w.cache.RemoveInformer(w.ctx(), OfKind(kind)) // It only fails for something that isn't a kind.
}

// Kinds returns the watched kinds, sorted.
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
