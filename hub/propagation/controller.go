package propagation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// The kinds of objects that the controllers of this package reconcile.
const (
	sourceKind        = "Propagation"
	clusterSourceKind = "ClusterPropagation"
)

// options configures setUp and setupCluster.
type options struct {
	placement.Options

	// Kinds lists the resources that may be placed, because the hub may read them. Other kinds are reported as problems in the status.
	Kinds []schema.GroupResource
}

// +kubebuilder:rbac:groups=fleet.kruise.io,resources=propagations;clusterpropagations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=propagations/status;clusterpropagations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp starts the controller of Propagations.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	return namespaced().setup(ctx, mgr, o)
}

// setupCluster starts the controller of ClusterPropagations.
func setupCluster(ctx context.Context, mgr ctrl.Manager, o options) error {
	return clusterScoped().setup(ctx, mgr, o)
}

func (f sourceType) setup(ctx context.Context, mgr ctrl.Manager, o options) error {
	w, err := newWatches(mgr, f, o.Kinds)
	if err != nil {
		return err
	}
	if err := mgr.Add(w); err != nil {
		return fmt.Errorf("set up the watches of %ss: %w", f.kind, err)
	}
	return f.placementKind(o, w).Setup(ctx, mgr, o.Options)
}

// sourceType describes how the two kinds differ.
type sourceType struct {
	kind   string
	object func() client.Object
	list   func() client.ObjectList
	// specAndStatus returns the spec and the status of an object, and items the objects in a list.
	specAndStatus func(client.Object) (*fleetv1alpha1.PropagationSpec, *fleetv1alpha1.PropagationStatus)
	items         func(client.ObjectList) []client.Object
	// namespaced is true if sources of this kind select objects in their own namespace. Otherwise they select cluster-scoped objects.
	namespaced bool
	metrics    placement.RowMetrics
}

func namespaced() sourceType {
	return sourceType{
		kind: sourceKind, namespaced: true, metrics: measure,
		object: func() client.Object { return &fleetv1alpha1.Propagation{} },
		list:   func() client.ObjectList { return &fleetv1alpha1.PropagationList{} },
		specAndStatus: func(o client.Object) (*fleetv1alpha1.PropagationSpec, *fleetv1alpha1.PropagationStatus) {
			p := o.(*fleetv1alpha1.Propagation)
			return &p.Spec, &p.Status
		},
		items: func(l client.ObjectList) []client.Object { return pointers(l.(*fleetv1alpha1.PropagationList).Items) },
	}
}

func clusterScoped() sourceType {
	return sourceType{
		kind: clusterSourceKind, metrics: measureCluster,
		object: func() client.Object { return &fleetv1alpha1.ClusterPropagation{} },
		list:   func() client.ObjectList { return &fleetv1alpha1.ClusterPropagationList{} },
		specAndStatus: func(o client.Object) (*fleetv1alpha1.PropagationSpec, *fleetv1alpha1.PropagationStatus) {
			p := o.(*fleetv1alpha1.ClusterPropagation)
			return &p.Spec, &p.Status
		},
		items: func(l client.ObjectList) []client.Object {
			return pointers(l.(*fleetv1alpha1.ClusterPropagationList).Items)
		},
	}
}

// pointers returns the objects of a list without copying them.
func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	out := make([]client.Object, 0, len(items))
	for i := range items {
		out = append(out, P(&items[i]))
	}
	return out
}

// all returns the objects of the kind in a namespace from a cache. Namespace "" stands for cluster-scoped objects. The objects belong to the
// cache and must not be changed.
func (f sourceType) all(ctx context.Context, r client.Reader, namespace string) ([]client.Object, error) {
	list := f.list()
	if err := r.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %ss: %w", f.kind, err)
	}
	return f.items(list), nil
}

// Kind returns the kind Propagation for simulations. It reads selected objects from a cache that holds all kinds, so it sets up no watches.
func Kind(o placement.Options, cache client.Reader) placement.Kind[*observed, planned, fleetv1alpha1.PropagationStatus] {
	return namespaced().placementKind(options{Options: o}, unwatched{cache})
}

// unwatched reads objects from a cache that holds all kinds.
type unwatched struct{ client.Reader }

func (unwatched) follow(client.ObjectKey, []schema.GroupVersionKind) error { return nil }

func (unwatched) readable(context.Context, schema.GroupVersionKind) (*problem, error) {
	return nil, nil
}

func (unwatched) watch(b *builder.Builder) *builder.Builder { return b }

func (unwatched) forget(client.ObjectKey) {}

// placementKind returns the kind in the form that package placement needs. w reads the selected objects.
func (f sourceType) placementKind(options options, w objectReader) placement.Kind[*observed, planned, fleetv1alpha1.PropagationStatus] {
	return placement.Kind[*observed, planned, fleetv1alpha1.PropagationStatus]{
		Name: f.kind, Object: f.object, List: f.list, Metrics: f.metrics,
		Where: func(o client.Object) []placement.Where {
			spec, _ := f.specAndStatus(o)
			return placement.Selected(spec.Clusters).Where()
		},
		Indexes: row.IndexByObject,
		Observe: func(ctx context.Context, c placement.Client, key client.ObjectKey) (*observed, error) {
			return f.observe(ctx, c, key, w, options)
		},
		Plan: plan,
		Status: func(o *observed, p planned, a placement.Summary, now time.Time) (before, after fleetv1alpha1.PropagationStatus) {
			return *o.oldStatus, status(o, p, a, now)
		},
		Change: func(_ *observed, before, after fleetv1alpha1.PropagationStatus) placement.Change {
			return changed(before, after)
		},
		Rows:  f.releasedRowHandler,
		Watch: w.watch,
		Gone: func(_ context.Context, _ placement.Client, key client.ObjectKey) error {
			w.forget(key)
			return nil
		},
	}
}
