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
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
)

// recheckSync is how often to check a kind whose informer has not synced yet.
const recheckSync = 500 * time.Millisecond

// reasonScope means that the scope of the kind doesn't fit this kind of source.
const reasonScope = "WrongScope"

// watcher adds the watches of a controller, and forgets sources that are gone.
type watcher interface {
	watch(b *builder.Builder) *builder.Builder
	forget(who client.ObjectKey)
}

// watches implements objectReader with a cache of its own. A kind is in the cache for as long as it is selected.
type watches struct {
	client.Reader // the cache

	sourceType sourceType
	allowed    []schema.GroupResource
	cache      cache.Cache
	kinds      *kindwatch.Watches
	// sources reads Propagations from the manager's cache. live reads from the apiserver.
	sources, live client.Reader
	mapper        meta.RESTMapper

	mu sync.Mutex
	// failing are the kinds whose watch was refused, by the type description of the reflector.
	failing map[string]bool
}

func newWatches(mgr ctrl.Manager, f sourceType, allowed []schema.GroupResource) (*watches, error) {
	w := &watches{sourceType: f, allowed: allowed, sources: mgr.GetClient(), live: mgr.GetAPIReader(), mapper: mgr.GetRESTMapper(), failing: map[string]bool{}}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true, DefaultWatchErrorHandler: w.onWatchError,
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
	return b.Watches(w.sourceType.object(), w.sourceType.peerHandler(w.sources)).WatchesRawSource(w.kinds.Source())
}

func (w *watches) forget(source client.ObjectKey) { w.kinds.Forget(source) }

func (w *watches) follow(source client.ObjectKey, kinds []schema.GroupVersionKind) error {
	var known []schema.GroupVersionKind
	for _, kind := range kinds {
		switch why, err := w.checkKind(kind); {
		case err != nil:
			return err
		case why == nil:
			known = append(known, kind)
		}
	}
	return w.kinds.Follow(source, known...) //nolint:wrapcheck // It names the kind.
}

// checkKind returns why objects of a kind can't be selected, or nil.
func (w *watches) checkKind(kind schema.GroupVersionKind) (*problem, error) {
	mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case err != nil && isUnservedError(err):
		return notServed(kind), nil
	case err != nil:
		return nil, fmt.Errorf("find the resource of %s: %w", kind, err)
	case kind.GroupKind() != unitedKind() && !slices.Contains(w.allowed, mapping.Resource.GroupResource()):
		return &problem{
			Kind: kind.Kind, Reason: fleetv1alpha1.ReasonKindNotAllowed,
			Message: fmt.Sprintf("this hub does not place %s: add them to propagation.kinds of its chart", mapping.Resource.GroupResource()),
		}, nil
	case w.sourceType.namespaced && mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return &problem{Kind: kind.Kind, Reason: reasonScope, Message: "the kind is cluster-scoped: select it in a ClusterPropagation"}, nil
	case !w.sourceType.namespaced && mapping.Scope.Name() == meta.RESTScopeNameNamespace:
		return &problem{Kind: kind.Kind, Reason: reasonScope, Message: "the kind is namespaced: select it in a Propagation in its namespace"}, nil
	}
	return nil, nil
}

// readable asks the apiserver about a kind whose objects are not in the cache yet, or whose watch was refused.
func (w *watches) readable(ctx context.Context, kind schema.GroupVersionKind) (*problem, error) {
	if why, err := w.checkKind(kind); err != nil || why != nil {
		return why, err
	}
	synced, failing := w.kinds.Synced(kind), w.isFailing(kind)
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
		return nil, expect.NotYetError{Wait: expect.Wait{Count: 1, Example: kind.Kind, Left: recheckSync}}
	}
	return nil, nil
}

func (w *watches) isFailing(kind schema.GroupVersionKind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failing[kind.String()]
}

// onWatchError records that the apiserver refused a watch, and enqueues the sources that follow the kind. The cached objects are then out
// of date.
func (w *watches) onWatchError(ctx context.Context, r *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
	name := r.TypeDescription()
	if !isUnservedError(err) {
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

// selecting returns the keys of the sources that select the old or the new state of an object, or may need it as a dependency.
func (w *watches) selecting(ctx context.Context, before, after client.Object) []client.ObjectKey {
	var states []client.Object
	for _, o := range []client.Object{before, after} {
		if o != nil {
			states = append(states, o)
		}
	}
	return w.sourceType.selecting(ctx, w.sources, states...)
}

// selecting returns the keys of the sources in a cache that select one of the states of an object, or may need it as a dependency.
func (f sourceType) selecting(ctx context.Context, r client.Reader, states ...client.Object) []client.ObjectKey {
	if len(states) == 0 {
		return nil
	}
	all, err := f.all(ctx, r, states[0].GetNamespace())
	if err != nil { // Only before the cache has started, or when the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue the sources that select an object", "kind", f.kind)
		return nil
	}
	var out []client.ObjectKey
	for _, source := range all {
		spec, _ := f.specAndStatus(source)
		if slices.ContainsFunc(states, func(o client.Object) bool {
			kind := o.GetObjectKind().GroupVersionKind().GroupKind()
			return mayNeed(spec, kind) || selects(spec, kind, o.GetName(), o.GetLabels())
		}) {
			out = append(out, client.ObjectKeyFromObject(source))
		}
	}
	return out
}

// peerHandler enqueues all other sources in a namespace when one is created or deleted, or its spec changes: they may select the same objects.
func (f sourceType) peerHandler(r client.Reader) handler.EventHandler {
	add := func(ctx context.Context, q kindwatch.Queue, o client.Object) {
		all, err := f.all(ctx, r, o.GetNamespace())
		if err != nil { // See selecting.
			ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue other sources in the namespace", "kind", f.kind)
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

// releasedRowHandler enqueues the other sources that may place the object of a row when the row is created or deleted: one of them may take it
// over. The cache of objects may be behind, so all selectors of the kind count, whatever their labels.
func (f sourceType) releasedRowHandler(r client.Reader) handler.EventHandler {
	add := func(ctx context.Context, q kindwatch.Queue, o client.Object) {
		live := o.(*fleetv1alpha1.MemberWork)
		namespace, ref := row.ObjectOf(live)
		if f.namespaced != (namespace != "") {
			return
		}
		all, err := f.all(ctx, r, namespace)
		if err != nil { // See selecting.
			ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue the sources that select the object of a row", "kind", f.kind)
			return
		}
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		for _, source := range all {
			spec, _ := f.specAndStatus(source)
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
