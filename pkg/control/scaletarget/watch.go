package scaletarget

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// again is how long to wait before looking again for a kind on the white list that the API server doesn't serve yet.
const again = 30 * time.Second

// Watcher watches the kinds on one white list, which may change at any time, as metadata only. A kind that the manager may not read never syncs;
// it must not block a reconcile or a request, as a read from its cache would.
type Watcher struct {
	// Cache is the manager's cache, Namespace the manager's namespace, and Key the key of the white list.
	Cache     cache.Cache
	Namespace string
	Key       string
	// Clock is required.
	Clock clock.Clock
	// Changed reports whether an update of an object matters to the receiver of Events.
	Changed func(before, after client.Object) bool
	// Events receives the workloads of events; if nil, none are sent and the Watcher runs in all replicas, not only in the leader.
	Events chan event.GenericEvent

	// wake signals that the list may have changed.
	wake  chan struct{}
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]watched
}

type watched struct {
	informer cache.Informer
	handler  toolscache.ResourceEventHandlerRegistration
}

var _ manager.LeaderElectionRunnable = &Watcher{}

// NewWatcher returns a Watcher without Events.
func NewWatcher(c cache.Cache, namespace, key string, clk clock.Clock) *Watcher {
	return &Watcher{
		Cache: c, Namespace: namespace, Key: key, Clock: clk,
		wake: make(chan struct{}, 1), kinds: map[schema.GroupVersionKind]watched{},
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (w *Watcher) NeedLeaderElection() bool { return w.Events != nil }

// Watched reports whether a kind can be read from the cache.
func (w *Watcher) Watched(kind schema.GroupVersionKind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.kinds[kind].informer
	return i != nil && i.HasSynced()
}

// listChanged triggers another look at the list.
func (w *Watcher) listChanged(any) {
	select {
	case w.wake <- struct{}{}:
	default: // One is already pending.
	}
}

// Start watches the listed kinds until ctx is done.
func (w *Watcher) Start(ctx context.Context) error {
	config, err := w.Cache.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return fmt.Errorf("watch ConfigMap %s: %w", ConfigMap, err)
	}
	_, err = config.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.listChanged, DeleteFunc: w.listChanged, UpdateFunc: func(_, o any) { w.listChanged(o) },
	})
	if err != nil {
		return fmt.Errorf("watch ConfigMap %s: %w", ConfigMap, err)
	}
	for ctx.Err() == nil {
		if w.syncWatches(ctx) {
			w.sleep(ctx, nil)
			continue
		}
		t := w.Clock.NewTimer(again)
		w.sleep(ctx, t.C())
		t.Stop()
	}
	return nil
}

// sleep waits until the list changes, or for due.
func (w *Watcher) sleep(ctx context.Context, due <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-due:
	}
}

// syncWatches makes the watched kinds match the list. It returns false if one can't be watched yet.
func (w *Watcher) syncWatches(ctx context.Context) bool {
	log := ctrl.LoggerFrom(ctx)
	list, err := List(ctx, w.Cache, w.Namespace, w.Key)
	if err != nil { // Existing watches stay. The condition of each object that needs the list has the error.
		log.Error(err, "Could not read the kinds of workloads")
		return true
	}
	kinds := allKinds(list)
	for kind, entry := range w.kinds { // No other goroutine writes it.
		if !slices.Contains(kinds, kind) {
			w.update(func() { delete(w.kinds, kind) })
			if err := w.stopWatch(ctx, kind, entry); err != nil {
				log.Error(err, "Could not end a watch", "kind", kind.String())
			}
		}
	}
	complete := true
	for _, kind := range kinds {
		if newTyped(kind.GroupKind()) != nil {
			continue
		}
		if err := w.startWatch(ctx, kind); err != nil {
			log.Error(err, "Could not watch a kind of workloads", "kind", kind.String(), "after", again)
			complete = false
		}
	}
	return complete
}

// allKinds returns the kinds on a list, including those between them and pods.
func allKinds(list []Listed) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, l := range list {
		out = append(append(out, l.Kind), l.Between...)
	}
	return out
}

// stopWatch ends a watch, unless another white list has the kind: all Watchers share the informers of a cache.
func (w *Watcher) stopWatch(ctx context.Context, kind schema.GroupVersionKind, entry watched) error {
	for _, key := range keysOf() {
		list, err := List(ctx, w.Cache, w.Namespace, key)
		if err != nil || slices.Contains(allKinds(list), kind) {
			return entry.informer.RemoveEventHandler(entry.handler)
		}
	}
	return w.Cache.RemoveInformer(ctx, Empty(kind))
}

// startWatch starts a watch that doesn't run yet. Another Watcher may have ended it, if the kind left the lists for a moment.
func (w *Watcher) startWatch(ctx context.Context, kind schema.GroupVersionKind) error {
	informer, err := w.Cache.GetInformer(ctx, Empty(kind), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", kind, err)
	}
	before := w.kinds[kind]
	if before.informer == informer {
		return nil
	}
	send := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if o, ok := o.(client.Object); ok && w.Events != nil {
			select {
			case w.Events <- event.GenericEvent{Object: o}:
			case <-ctx.Done():
			}
		}
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: send, DeleteFunc: send,
		UpdateFunc: func(oldObj, newObj any) {
			before, wasObject := oldObj.(client.Object)
			after, isObject := newObj.(client.Object)
			if wasObject && isObject && w.Changed != nil && w.Changed(before, after) {
				send(newObj)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", kind, err)
	}
	w.update(func() { w.kinds[kind] = watched{informer, handler} })
	if before.informer != nil { // It has ended, unless the cache makes a new one for each call.
		_ = before.informer.RemoveEventHandler(before.handler)
	}
	return nil
}

// update updates kinds. Slow work such as discovery happens before, because requests for pods call Watched.
func (w *Watcher) update(kinds func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds()
}
