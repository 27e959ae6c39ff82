package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-io/flotilla/apis/keys"
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

// watches holds the watches on kinds in the member, each from when a row first has an object of the kind until the last such row is
// gone. It is a source itself, which gives it the queue of the rows controller. It may be used concurrently.
//
// The cache is the agent's own, so that an informer that is removed is nobody else's. A manager's cache would save nothing: what its
// controllers watch are typed objects, and those of rows are not.
type watches struct {
	cache cache.Cache

	mu        sync.Mutex
	ctx       func() context.Context // of the controller's run; nil before the start
	queue     queue
	informers map[schema.GroupVersionKind]cache.Informer
	rows      map[target]client.ObjectKey
	// followed is the kind of which each row has an object; waiting are rows whose kind is not served.
	followed map[client.ObjectKey]schema.GroupVersionKind
	waiting  map[client.ObjectKey]waiting
}

// waiting is what a row waits for.
type waiting struct {
	gvk schema.GroupVersionKind
	// definition: it waits for its CRD too, which may go without a change of what is served.
	definition bool
	// seen are the versions that were served when it was enqueued last; known: it was.
	seen  string
	known bool
}

// target names an object in the member, of any version.
type target struct {
	kind            schema.GroupKind
	namespace, name string
}

func newWatches(c cache.Cache) *watches {
	return &watches{
		cache: c, informers: map[schema.GroupVersionKind]cache.Informer{}, rows: map[target]client.ObjectKey{},
		followed: map[client.ObjectKey]schema.GroupVersionKind{}, waiting: map[client.ObjectKey]waiting{},
	}
}

// slim keeps of an object what a reconcile needs of it: of one that a hub placed all but managedFields, of any other one its identity.
// That is enough, because a cached object is used only to see that nothing is to be done; what is not as the row wants it is read again
// from the apiserver, also to see who owns which field. Of a CRD only the name is needed.
func slim(o any) (any, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		o.ManagedFields, o.Annotations, o.Labels, o.OwnerReferences = nil, nil, nil, nil
	case *unstructured.Unstructured:
		o.SetManagedFields(nil)
		if _, placed := o.GetAnnotations()[keys.FleetRowUID]; placed {
			return o, nil
		}
		bare := &unstructured.Unstructured{}
		bare.SetGroupVersionKind(o.GroupVersionKind())
		bare.SetNamespace(o.GetNamespace())
		bare.SetName(o.GetName())
		bare.SetUID(o.GetUID())
		bare.SetResourceVersion(o.GetResourceVersion())
		bare.SetGeneration(o.GetGeneration())
		bare.SetDeletionTimestamp(o.GetDeletionTimestamp())
		return bare, nil
	}
	return o, nil
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
	w.add(rows...)
}

func (w *watches) add(rows ...client.ObjectKey) {
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
	delete(w.waiting, row)
	w.rows[t] = row
	was, had := w.followed[row]
	w.followed[row] = gvk
	if had && was != gvk {
		w.release(was)
	}
	if w.informers[gvk] != nil || w.ctx == nil {
		return nil
	}
	informer, err := w.cache.GetInformer(w.ctx(), ofKind(gvk), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	if err := (follower{keys: w.rowOf}).add(w.ctx(), informer, w.queue); err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	w.informers[gvk] = informer
	return nil
}

// await remembers a row whose kind is not served, and ends the watch on that kind, which could only fail. With definition it waits for
// the kind's CRD too.
func (w *watches) await(gvk schema.GroupVersionKind, row client.ObjectKey, definition bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.waiting[row]; was.gvk != gvk || was.definition != definition {
		w.waiting[row] = waiting{gvk: gvk, definition: definition}
	}
	w.stop(gvk)
}

// wake enqueues the rows that wait for what is served now, or of whose kind other versions are, and those that follow a kind which is not
// served any more. Of such kinds it ends the watches. served has the versions of each kind; of the groups in silent nothing is known.
func (w *watches) wake(served map[schema.GroupKind][]string, silent map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for row, what := range w.waiting {
		if silent[what.gvk.Group] {
			continue
		}
		versions := served[what.gvk.GroupKind()]
		now := strings.Join(versions, ",")
		if what.definition || !what.known || what.seen != now || slices.Contains(versions, what.gvk.Version) {
			w.add(row)
		}
		what.seen, what.known = now, true
		w.waiting[row] = what
	}
	for gvk := range w.informers {
		if silent[gvk.Group] || slices.Contains(served[gvk.GroupKind()], gvk.Version) {
			continue
		}
		w.stop(gvk)
		for row, followed := range w.followed {
			if followed == gvk {
				w.add(row)
			}
		}
	}
}

// forget undoes follow and await. With the last row of a kind its watch ends.
func (w *watches) forget(row client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t, r := range w.rows {
		if r == row {
			delete(w.rows, t)
		}
	}
	delete(w.waiting, row)
	if gvk, had := w.followed[row]; had {
		delete(w.followed, row)
		w.release(gvk)
	}
}

// release ends the watch on a kind that no row follows.
func (w *watches) release(gvk schema.GroupVersionKind) {
	for _, followed := range w.followed {
		if followed == gvk {
			return
		}
	}
	w.stop(gvk)
}

func (w *watches) stop(gvk schema.GroupVersionKind) {
	if w.informers[gvk] == nil {
		return
	}
	delete(w.informers, gvk)
	_ = w.cache.RemoveInformer(w.ctx(), ofKind(gvk)) // It fails for what is no kind only.
}

// kinds returns the kinds that are watched, sorted.
func (w *watches) kinds() []schema.GroupVersionKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.informers), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
}

func ofKind(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o
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
