package resourcedistribution

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// copies provides the objects with the kinds and names that are distributed.
type copies interface {
	// all returns the objects with a kind and name. If synced is false, they are not known yet, and an event follows once they are. err is why
	// they can't be read.
	all(ctx context.Context, key id) (list []*held, synced bool, err error)
	// keep forgets the kinds and names that are no longer distributed. wanted returns those that are.
	keep(wanted func() (map[id]bool, error)) error
}

// watches has one watch for each kind and name, because RBAC can't restrict a watch of all objects to a name.
type watches struct {
	// ctx ends all watches.
	ctx    context.Context //nolint:containedctx // Watches are started by reconciles, and outlast them.
	client client.WithWatch
	// changed receives an object with the kind and name of whatever has changed.
	changed chan event.GenericEvent

	mu      sync.Mutex
	running map[id]*running
}

type running struct {
	informer toolscache.SharedIndexInformer
	stop     context.CancelFunc

	mu sync.Mutex
	// err is why the last list or watch failed.
	err error
}

func newWatches(ctx context.Context, c client.WithWatch) *watches {
	return &watches{ctx: ctx, client: c, changed: make(chan event.GenericEvent), running: map[id]*running{}}
}

// all implements copies. The first call for a kind and name starts the watch.
func (w *watches) all(_ context.Context, key id) ([]*held, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.running[key]
	if r == nil {
		var err error
		if r, err = w.start(key); err != nil { //nolint:contextcheck // The watch outlasts the reconcile.
			return nil, false, err
		}
		w.running[key] = r
	}
	if !r.informer.HasSynced() {
		return nil, false, r.failed()
	}
	var out []*held
	for _, o := range r.informer.GetStore().List() {
		if h, ok := o.(*held); ok {
			out = append(out, h)
		}
	}
	return out, true, nil
}

// keep implements copies. No watch can start between the list of what is distributed and the end of the others: its ResourceDistribution might
// not be in the list.
func (w *watches) keep(wanted func() (map[id]bool, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys, err := wanted()
	if err != nil {
		return err
	}
	maps.DeleteFunc(w.running, func(key id, r *running) bool {
		if !keys[key] {
			r.stop()
		}
		return !keys[key]
	})
	return nil
}

func (r *running) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (w *watches) start(key id) (*running, error) {
	byName := func(o *metav1.ListOptions) *client.ListOptions {
		selector := fields.OneTermEqualSelector(metav1.ObjectNameField, key.name)
		o.FieldSelector = selector.String()
		return &client.ListOptions{FieldSelector: selector, Raw: o}
	}
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := key.list()
			return list, w.client.List(ctx, list, byName(&o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return w.client.Watch(ctx, key.list(), byName(&o))
		},
	}, key.empty(), 0, nil)
	ctx, stop := context.WithCancel(w.ctx)
	r := &running{informer: informer, stop: stop}
	if err := w.prepare(ctx, key, r); err != nil {
		stop()
		return nil, fmt.Errorf("watch %s: %w", key, err)
	}
	go informer.RunWithContext(ctx)
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) { // There may be no object, and so no event.
			w.enqueue(ctx, key)
		}
	}()
	return r, nil
}

// prepare sets how an informer handles objects, events and errors.
func (w *watches) prepare(ctx context.Context, key id, r *running) error {
	err := r.informer.SetTransform(func(o any) (any, error) {
		switch object := o.(type) {
		case *corev1.Secret:
			return newHeld(key.kind, object)
		case *corev1.ConfigMap:
			return newHeld(key.kind, object)
		}
		return o, nil
	})
	if err != nil {
		return err //nolint:wrapcheck // The caller does.
	}
	err = r.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *toolscache.Reflector, err error) {
		r.mu.Lock()
		first := r.err == nil
		r.err = err
		r.mu.Unlock()
		toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
		if first && !r.informer.HasSynced() {
			w.enqueue(ctx, key)
		}
	})
	if err != nil {
		return err //nolint:wrapcheck // The caller does.
	}
	_, err = r.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.enqueue(ctx, key) },
		UpdateFunc: func(any, any) { w.enqueue(ctx, key) },
		DeleteFunc: func(any) { w.enqueue(ctx, key) },
	})
	return err //nolint:wrapcheck // The caller does.
}

// enqueue triggers reconciles of the ResourceDistributions that distribute the kind and name.
func (w *watches) enqueue(ctx context.Context, key id) {
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: key.kind}, ObjectMeta: metav1.ObjectMeta{Name: key.name}}
	select {
	case w.changed <- event.GenericEvent{Object: o}:
	case <-ctx.Done():
	}
}
