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
	all(ctx context.Context, of id) (list []*held, synced bool, err error)
	// keep says which kinds and names are distributed. Others may be forgotten.
	keep(wanted map[id]bool)
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
func (w *watches) all(_ context.Context, of id) ([]*held, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.running[of]
	if r == nil {
		var err error
		if r, err = w.start(of); err != nil { //nolint:contextcheck // The watch outlasts the reconcile.
			return nil, false, err
		}
		w.running[of] = r
	}
	if !r.informer.HasSynced() {
		return nil, false, r.failed()
	}
	var out []*held
	for _, o := range r.informer.GetStore().List() {
		if h, is := o.(*held); is {
			out = append(out, h)
		}
	}
	return out, true, nil
}

// keep implements copies.
func (w *watches) keep(wanted map[id]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.running, func(of id, r *running) bool {
		if !wanted[of] {
			r.stop()
		}
		return !wanted[of]
	})
}

func (r *running) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (w *watches) start(of id) (*running, error) {
	byName := func(o *metav1.ListOptions) *client.ListOptions {
		selector := fields.OneTermEqualSelector(metav1.ObjectNameField, of.name)
		o.FieldSelector = selector.String()
		return &client.ListOptions{FieldSelector: selector, Raw: o}
	}
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := of.list()
			return list, w.client.List(ctx, list, byName(&o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return w.client.Watch(ctx, of.list(), byName(&o))
		},
	}, of.empty(), 0, nil)
	ctx, stop := context.WithCancel(w.ctx)
	r := &running{informer: informer, stop: stop}
	if err := w.prepare(ctx, of, r); err != nil {
		stop()
		return nil, fmt.Errorf("watch %s: %w", of, err)
	}
	go informer.RunWithContext(ctx)
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) { // There may be no object, and so no event.
			w.send(ctx, of)
		}
	}()
	return r, nil
}

// prepare sets how an informer handles objects, events and errors.
func (w *watches) prepare(ctx context.Context, of id, r *running) error {
	err := r.informer.SetTransform(func(o any) (any, error) {
		switch is := o.(type) {
		case *corev1.Secret:
			return hold(of.kind, is)
		case *corev1.ConfigMap:
			return hold(of.kind, is)
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
			w.send(ctx, of)
		}
	})
	if err != nil {
		return err //nolint:wrapcheck // The caller does.
	}
	_, err = r.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.send(ctx, of) },
		UpdateFunc: func(any, any) { w.send(ctx, of) },
		DeleteFunc: func(any) { w.send(ctx, of) },
	})
	return err //nolint:wrapcheck // The caller does.
}

// send triggers reconciles of the ResourceDistributions that distribute the kind and name.
func (w *watches) send(ctx context.Context, of id) {
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: of.kind}, ObjectMeta: metav1.ObjectMeta{Name: of.name}}
	select {
	case w.changed <- event.GenericEvent{Object: o}:
	case <-ctx.Done():
	}
}
