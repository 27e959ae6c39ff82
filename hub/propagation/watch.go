package propagation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/kindwatch"
)

// syncing is how often a kind is checked whose objects are being read for the first time.
const syncing = 500 * time.Millisecond

// reasonScope means that the scope of the kind doesn't fit this kind of source.
const reasonScope = "WrongScope"

// watcher adds the watches of a controller, and forgets objects that are gone.
type watcher interface {
	watch(b *builder.Builder) *builder.Builder
	forget(who client.ObjectKey)
}

// watches implements objects with a cache of its own. A kind is in the cache for as long as it is selected.
type watches struct {
	client.Reader // the cache

	form    form
	allowed []schema.GroupResource
	cache   cache.Cache
	kinds   *kindwatch.Watches
	// sources reads Propagations from the manager's cache. live reads from the apiserver.
	sources, live client.Reader
	mapper        meta.RESTMapper

	mu sync.Mutex
	// failing are the kinds whose watch was refused, by the type description of the reflector.
	failing map[string]bool
}

func newWatches(mgr ctrl.Manager, f form, allowed []schema.GroupResource) (*watches, error) {
	w := &watches{form: f, allowed: allowed, sources: mgr.GetClient(), live: mgr.GetAPIReader(), mapper: mgr.GetRESTMapper(), failing: map[string]bool{}}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true, DefaultWatchErrorHandler: w.failed,
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of selected objects: %w", err)
	}
	w.Reader, w.cache, w.kinds = c, c, kindwatch.New(c, w.selecting)
	return w, nil
}

// Start implements manager.Runnable.
func (w *watches) Start(ctx context.Context) error {
	if err := w.cache.Start(ctx); err != nil {
		return fmt.Errorf("watch selected objects: %w", err)
	}
	return nil
}

func (w *watches) watch(b *builder.Builder) *builder.Builder {
	return b.Watches(w.form.object(), w.form.peers(w.sources)).WatchesRawSource(w.kinds.Source())
}

func (w *watches) forget(who client.ObjectKey) { w.kinds.Forget(who) }

func (w *watches) follow(who client.ObjectKey, kinds []schema.GroupVersionKind) error {
	var known []schema.GroupVersionKind
	for _, kind := range kinds {
		switch why, err := w.scope(kind); {
		case err != nil:
			return err
		case why == nil:
			known = append(known, kind)
		}
	}
	return w.kinds.Follow(who, known...) //nolint:wrapcheck // It names the kind.
}

// scope returns why objects of a kind can't be selected, or nil.
func (w *watches) scope(kind schema.GroupVersionKind) (*problem, error) {
	mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case err != nil && unservedError(err):
		return notServed(kind), nil
	case err != nil:
		return nil, fmt.Errorf("find the resource of %s: %w", kind, err)
	case kind.GroupKind() != unitedKind() && !slices.Contains(w.allowed, mapping.Resource.GroupResource()):
		return &problem{
			Kind: kind.Kind, Reason: fleetv1alpha1.ReasonKindNotAllowed,
			Message: fmt.Sprintf("this hub places no %s: add them to propagation.kinds of its chart", mapping.Resource.GroupResource()),
		}, nil
	case w.form.namespaced && mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return &problem{Kind: kind.Kind, Reason: reasonScope, Message: "its objects are in no namespace: select them in a ClusterPropagation"}, nil
	case !w.form.namespaced && mapping.Scope.Name() == meta.RESTScopeNameNamespace:
		return &problem{Kind: kind.Kind, Reason: reasonScope, Message: "its objects are in namespaces: select them in a Propagation there"}, nil
	}
	return nil, nil
}

// readable asks the apiserver about a kind whose objects are not in the cache yet, or whose watch was refused.
func (w *watches) readable(ctx context.Context, kind schema.GroupVersionKind) (*problem, error) {
	if why, err := w.scope(kind); err != nil || why != nil {
		return why, err
	}
	synced, failing := w.kinds.Synced(kind), w.fails(kind)
	if synced && !failing {
		return nil, nil
	}
	why, err := probe(ctx, w.live, kind, "")
	if err != nil || why != nil {
		return why, err
	}
	w.mu.Lock()
	delete(w.failing, kind.String())
	w.mu.Unlock()
	if !synced {
		return nil, expect.NotYetError{Wait: expect.Wait{Count: 1, Example: kind.Kind, Left: syncing}}
	}
	return nil, nil
}

func (w *watches) fails(kind schema.GroupVersionKind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failing[kind.String()]
}

// failed records that the apiserver refused a watch, and enqueues the sources that follow the kind. The cached objects are then out of date.
func (w *watches) failed(ctx context.Context, r *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
	name := r.TypeDescription()
	if !unservedError(err) {
		return
	}
	w.mu.Lock()
	known := w.failing[name]
	w.failing[name] = true
	w.mu.Unlock()
	if known {
		return
	}
	for _, kind := range w.kinds.Kinds() {
		if kind.String() == name {
			w.kinds.Wake(kind)
		}
	}
}

// selecting returns the keys of the sources that select the old or the new state of an object.
func (w *watches) selecting(ctx context.Context, was, is client.Object) []client.ObjectKey {
	var states []client.Object
	for _, o := range []client.Object{was, is} {
		if o != nil {
			states = append(states, o)
		}
	}
	return w.form.selecting(ctx, w.sources, states...)
}

// selecting returns the keys of the sources in a cache that select one of the states of an object.
func (f form) selecting(ctx context.Context, r client.Reader, states ...client.Object) []client.ObjectKey {
	if len(states) == 0 {
		return nil
	}
	all, err := f.all(ctx, r, states[0].GetNamespace())
	if err != nil { // Only before the cache has started, or when the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue those that select an object", "kind", f.kind)
		return nil
	}
	var out []client.ObjectKey
	for _, source := range all {
		spec, _ := f.parts(source)
		if slices.ContainsFunc(states, func(o client.Object) bool {
			kind := o.GetObjectKind().GroupVersionKind().GroupKind()
			return mayNeed(spec, kind) || selects(spec, kind, o.GetName(), o.GetLabels())
		}) {
			out = append(out, client.ObjectKeyFromObject(source))
		}
	}
	return out
}

// peers enqueues all other sources in a namespace when one is created, deleted or changes its spec: they may select the same objects.
func (f form) peers(r client.Reader) handler.EventHandler {
	add := func(ctx context.Context, q kindwatch.Queue, o client.Object) {
		all, err := f.all(ctx, r, o.GetNamespace())
		if err != nil { // See selecting.
			ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue others of the namespace", "kind", f.kind)
			return
		}
		for _, other := range all {
			if other.GetUID() != o.GetUID() {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q kindwatch.Queue) {
			if !e.IsInInitialList {
				add(ctx, q, e.Object)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q kindwatch.Queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
				add(ctx, q, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q kindwatch.Queue) { add(ctx, q, e.Object) },
	}
}

// released enqueues the sources that select the object of a row when the row is created or deleted, regardless of its owner: one of them may
// take it over. The cache of objects may be behind, so all selectors of the kind count, whatever their labels.
func (f form) released(r client.Reader) handler.EventHandler {
	add := func(ctx context.Context, q kindwatch.Queue, o client.Object) {
		live := o.(*fleetv1alpha1.MemberWork)
		namespace, ref := row.ObjectOf(live)
		if f.namespaced != (namespace != "") {
			return
		}
		all, err := f.all(ctx, r, namespace)
		if err != nil { // See selecting.
			ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue those that select the object of a row", "kind", f.kind)
			return
		}
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		for _, source := range all {
			spec, _ := f.parts(source)
			if string(source.GetUID()) != live.Spec.Source.UID && (mayNeed(spec, kind) ||
				slices.ContainsFunc(spec.Selectors, func(s fleetv1alpha1.PropagationSelector) bool {
					return kindOf(s).GroupKind() == kind && (s.Name == "" || s.Name == ref.Name)
				})) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(source)})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q kindwatch.Queue) {
			if !e.IsInInitialList {
				add(ctx, q, e.Object)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q kindwatch.Queue) { add(ctx, q, e.Object) },
	}
}
