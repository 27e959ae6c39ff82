package kindwatch

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Fanout passes the changes of one kind to many controllers, each of which wants the objects with one key, such as a namespace. It registers
// only one handler with the informer, because an informer calls all its handlers for each change. It may be used concurrently.
type Fanout struct {
	// Cache holds the objects. Object is an empty one.
	Cache  cache.Cache
	Object client.Object
	// Key returns the key of an object, which never changes. With lists the objects with a key.
	Key  func(client.Object) string
	With func(ctx context.Context, key string) ([]client.Object, error)

	mu        sync.RWMutex
	followers map[string]map[*follower]bool
	// stop removes the handler from the informer; nil while there is none.
	stop func()
}

// follower is one controller.
type follower struct {
	ctx  func() context.Context
	q    Queue
	keys Keys
}

func (f *follower) enqueue(before, after client.Object) {
	for _, key := range f.keys(f.ctx(), before, after) {
		f.q.Add(reconcile.Request{NamespacedName: key})
	}
}

// Follow enqueues requests for the objects with a key, and for their changes until ctx ends.
func (f *Fanout) Follow(ctx context.Context, key string, q Queue, keys Keys) error {
	one := &follower{ctx: func() context.Context { return ctx }, q: q, keys: keys}
	if err := f.add(ctx, key, one); err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { f.remove(key, one) })
	// Later changes arrive as events, so nothing is missed; duplicates become one request.
	objects, err := f.With(ctx, key)
	if err != nil {
		return err
	}
	for _, o := range objects {
		one.enqueue(nil, o) //nolint:contextcheck // The follower has the context of its controller.
	}
	return nil
}

func (f *Fanout) add(ctx context.Context, key string, one *follower) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil {
		informer, err := f.Cache.GetInformer(ctx, f.Object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", f.Object, err)
		}
		handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			//nolint:contextcheck // Each follower has the context of its controller.
			AddFunc: func(o any) { f.changed(nil, o) }, UpdateFunc: f.changed, DeleteFunc: func(o any) { f.changed(o, nil) },
		})
		if err != nil {
			return fmt.Errorf("watch %T: add handler: %w", f.Object, err)
		}
		f.followers, f.stop = map[string]map[*follower]bool{}, func() { _ = informer.RemoveEventHandler(handle) }
	}
	if f.followers[key] == nil {
		f.followers[key] = map[*follower]bool{}
	}
	f.followers[key][one] = true
	return nil
}

func (f *Fanout) remove(key string, one *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.followers[key], one)
	if len(f.followers[key]) == 0 {
		delete(f.followers, key)
	}
	if len(f.followers) == 0 {
		f.stop()
		f.stop = nil
	}
}

func (f *Fanout) changed(from, to any) {
	before, after := objectOf(from), objectOf(to)
	o := after
	if o == nil {
		o = before
	}
	if o == nil {
		return
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	for one := range f.followers[f.Key(o)] {
		one.enqueue(before, after)
	}
}
