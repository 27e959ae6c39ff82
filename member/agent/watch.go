package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
)

// queue is the work queue of a controller.
type queue = kindwatch.Queue

// mapFunc maps an object to the requests that a change to it enqueues.
type mapFunc func(client.Object) []client.ObjectKey

// change applies the function to a new, changed or deleted object.
func (keys mapFunc) change(_ context.Context, before, after client.Object) []client.ObjectKey {
	switch {
	case after != nil:
		return keys(after)
	case before != nil:
		return keys(before)
	}
	return nil
}

// sourceOf returns a source of all changes of obj's kind. It is synced once its first events are queued. Its handler is removed with the
// controller, because the cache may belong to a manager that outlives many links.
func sourceOf(c cache.Cache, obj client.Object, keys mapFunc) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", obj, err)
		}
		if err := kindwatch.Handle(ctx, informer, q, keys.change); err != nil {
			return fmt.Errorf("watch %T: %w", obj, err)
		}
		return nil
	})
}

// watches holds the watches on kinds in the member. Each lasts from when a row first has an object of the kind until the last such row is gone. kinds
// is a source of the row controller, which gives it that controller's queue. It is safe for concurrent use.
type watches struct {
	kinds *kindwatch.Watches
	cache cache.Cache

	mu   sync.Mutex
	rows map[target]client.ObjectKey
	// waiting lists rows whose kind is not served.
	waiting map[client.ObjectKey]waiting
}

// waiting describes what a row waits for.
type waiting struct {
	gvk schema.GroupVersionKind
	// untilCRDGone means that it also waits for the deletion of its CRD, which might not change what is served.
	untilCRDGone bool
	// seen lists the versions that were served when the row was last enqueued. known means that it was enqueued before.
	seen  string
	known bool
}

// target names an object in the member, of any version.
type target struct {
	kind            schema.GroupKind
	namespace, name string
}

func newWatches(c cache.Cache) *watches {
	w := &watches{cache: c, rows: map[target]client.ObjectKey{}, waiting: map[client.ObjectKey]waiting{}}
	w.kinds = kindwatch.New(c, mapFunc(w.rowOf).change)
	return w
}

// stripForCache reduces a cached object to what a reconcile needs. Objects that a hub placed keep everything except managedFields; any other
// object keeps only its identity. That is enough, because a cached object is used only to see that nothing needs to be done. If the object
// differs from what the row wants, it is read again from the apiserver, which also shows who owns which field. Of a CRD only the name is
// needed.
func stripForCache(o any) (any, error) {
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

// follow makes changes of an object enqueue its row, and starts a watch on its kind if there is none.
func (w *watches) follow(gvk schema.GroupVersionKind, t target, row client.ObjectKey) error {
	w.mu.Lock()
	delete(w.waiting, row)
	w.rows[t] = row
	w.mu.Unlock()
	return w.kinds.Follow(row, gvk)
}

// awaitKind remembers a row whose kind is not served, and ends the watch on that kind, which could only fail. If untilCRDGone is set, the row also
// waits for the deletion of the kind's CRD.
func (w *watches) awaitKind(gvk schema.GroupVersionKind, row client.ObjectKey, untilCRDGone bool) {
	w.mu.Lock()
	if current := w.waiting[row]; current.gvk != gvk || current.untilCRDGone != untilCRDGone {
		w.waiting[row] = waiting{gvk: gvk, untilCRDGone: untilCRDGone}
	}
	w.mu.Unlock()
	w.kinds.Stop(gvk)
}

// wakeRows enqueues the rows that wait for a kind that is served now or whose served versions have changed. It also enqueues the rows that
// follow a kind that is no longer served, and ends the watches on such kinds. served maps each kind to its versions. Nothing is known about
// the groups in silent.
func (w *watches) wakeRows(served map[schema.GroupKind][]string, silent map[string]bool) {
	w.mu.Lock()
	for row, what := range w.waiting {
		if silent[what.gvk.Group] {
			continue
		}
		versions := served[what.gvk.GroupKind()]
		now := strings.Join(versions, ",")
		if what.untilCRDGone || !what.known || what.seen != now || slices.Contains(versions, what.gvk.Version) {
			w.kinds.Enqueue(row)
		}
		what.seen, what.known = now, true
		w.waiting[row] = what
	}
	w.mu.Unlock()
	for _, gvk := range w.kinds.Kinds() {
		if silent[gvk.Group] || slices.Contains(served[gvk.GroupKind()], gvk.Version) {
			continue
		}
		w.kinds.Stop(gvk)
		w.kinds.Wake(gvk)
	}
}

// forget undoes follow and awaitKind. The watch on a kind ends with its last row.
func (w *watches) forget(row client.ObjectKey) {
	w.mu.Lock()
	for t, r := range w.rows {
		if r == row {
			delete(w.rows, t)
		}
	}
	delete(w.waiting, row)
	w.mu.Unlock()
	w.kinds.Forget(row)
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

// trigger enqueues one request of a controller on demand. It is safe for concurrent use.
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

// enqueue enqueues the request. Before the controller has started it does nothing, because the start enqueues the request anyway.
func (t *trigger) enqueue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.Add(reconcile.Request{NamespacedName: t.key})
	}
}
