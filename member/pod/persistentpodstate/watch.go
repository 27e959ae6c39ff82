package persistentpodstate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flotilla-io/flotilla/pkg/scaletarget"
)

// again is when a kind of the white list that the apiserver does not serve yet is looked for again.
const again = 30 * time.Second

// further watches the kinds of the white list, which may change at any time: metadata only. A kind that the manager may not read
// never syncs; it must not keep a reconcile waiting, as a read from its cache would.
type further struct {
	cache     cache.Cache
	namespace string
	clock     clock.Clock
	// changed gets the workloads of events. wake says that the list may be another one.
	changed chan event.GenericEvent
	wake    chan struct{}

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]cache.Informer
}

func newFurther(c cache.Cache, namespace string, clk clock.Clock) *further {
	return &further{
		cache: c, namespace: namespace, clock: clk,
		changed: make(chan event.GenericEvent), wake: make(chan struct{}, 1), kinds: map[schema.GroupVersionKind]cache.Informer{},
	}
}

// watched reports whether a kind can be read from the cache.
func (f *further) watched(kind schema.GroupVersionKind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.kinds[kind]
	return i != nil && i.HasSynced()
}

// listChanged starts another look at the list.
func (f *further) listChanged() {
	select {
	case f.wake <- struct{}{}:
	default: // One is pending already.
	}
}

// Start watches what is listed until ctx is done. A manager runs it in the leader only.
func (f *further) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if f.follow(ctx) {
			f.sleep(ctx, nil)
			continue
		}
		t := f.clock.NewTimer(again)
		f.sleep(ctx, t.C())
		t.Stop()
	}
	return nil
}

// sleep waits for another list, or for due.
func (f *further) sleep(ctx context.Context, due <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-f.wake:
	case <-due:
	}
}

// follow watches exactly the kinds of the list. It returns false if one can't be watched yet.
func (f *further) follow(ctx context.Context) bool {
	log := ctrl.LoggerFrom(ctx)
	listed, err := scaletarget.WhiteList(ctx, f.cache, f.namespace, scaletarget.KeyPersistentPodState)
	if err != nil { // What is watched stays. The condition of each object that needs the list has the error.
		log.Error(err, "Could not read the kinds of workloads")
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind := range f.kinds {
		if !slices.Contains(listed, kind) {
			delete(f.kinds, kind)
			if err := f.cache.RemoveInformer(ctx, scaletarget.Empty(kind)); err != nil {
				log.Error(err, "Could not end a watch", "kind", kind.String())
			}
		}
	}
	all := true
	for _, kind := range listed {
		if f.kinds[kind] != nil || builtIn(kind.GroupKind()) {
			continue
		}
		if err := f.add(ctx, kind); err != nil {
			log.Error(err, "Could not watch a kind of workloads", "kind", kind.String(), "after", again)
			all = false
		}
	}
	return all
}

func (f *further) add(ctx context.Context, kind schema.GroupVersionKind) error {
	informer, err := f.cache.GetInformer(ctx, scaletarget.Empty(kind), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", kind, err)
	}
	send := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if w, ok := o.(client.Object); ok {
			select {
			case f.changed <- event.GenericEvent{Object: w}:
			case <-ctx.Done():
			}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: send, DeleteFunc: send,
		UpdateFunc: func(was, is any) {
			before, wasObject := was.(client.Object)
			after, isObject := is.(client.Object)
			if wasObject && isObject && workloadChanged(before, after) {
				send(is)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", kind, err)
	}
	f.kinds[kind] = informer
	return nil
}
