package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// sourceKind is the kind of the objects that this controller reconciles.
const sourceKind = "UnitedDeployment"

// Options are what Setup needs.
type Options struct {
	// Store writes rows.
	Store *row.Store
	// Events records events.
	Events event.Recorder
	// Clock is the real clock outside tests.
	Clock clock.PassiveClock
	// Workers is how many objects are reconciled concurrently; at least 1.
	Workers int
	// ExpectationTimeout is how long the cache may lack our own writes; 0 is 5 minutes.
	ExpectationTimeout time.Duration
	// LocalMember is true if this cluster runs the member stack too, which then reconciles objects without clusters.
	LocalMember bool
}

type reconciler struct {
	placement.Client
	options Options
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup starts the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := errors.Join(expect.Register(metrics.Registry), metric.Register(metrics.Registry, planSeconds, rowWrites, waits)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := errors.Join(row.IndexBySource(ctx, mgr.GetFieldIndexer()), indexByCluster(ctx, mgr.GetFieldIndexer())); err != nil {
		return err
	}
	r := &reconciler{
		Client: placement.Client{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Rows: o.Store, Expect: expect.New(sourceKind, o.Clock, o.ExpectationTimeout),
		},
		options: o,
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hub-uniteddeployment").
		For(&appsv1beta1.UnitedDeployment{}, builder.WithPredicates(sourceChanged())).
		Watches(&fleetv1alpha1.MemberWork{}, placement.RowHandler(sourceKind)).
		Watches(&fleetv1alpha1.MemberCluster{}, placement.ClusterHandler(sourceKind, mgr.GetClient(), r.placedIn)).
		WatchesRawSource(&placement.Fresh{
			Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Scheme: mgr.GetScheme(), Lists: []client.ObjectList{
				&fleetv1alpha1.MemberClusterList{}, &fleetv1alpha1.MemberWorkList{}, &appsv1beta1.UnitedDeploymentList{},
			},
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(o.Workers, 1)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the hub's UnitedDeployment controller: %w", err)
	}
	sweeper := &placement.Sweeper{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Rows: o.Store, Events: o.Events, Clock: o.Clock,
		Kind: sourceKind, New: func() client.Object { return &appsv1beta1.UnitedDeployment{} },
	}
	return sweeper.Setup(mgr)
}

// Reconcile reconciles one object.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return expect.Settle(ctx, err, waits.WithLabelValues("CacheBehind"))
	}
	start := r.options.Clock.Now()
	p := plan(o)
	planSeconds.Observe(r.options.Clock.Since(start).Seconds())
	if p.idle {
		return ctrl.Result{}, nil
	}
	a, err := r.Apply(ctx, o.ud, o.Fleet, p.Plan)
	for _, cluster := range a.Written {
		rowWrites.WithLabelValues(cluster).Inc()
	}
	if p.RemoveFinalizer {
		return ctrl.Result{}, err
	}
	s, events := status(o, p, a, r.options.Clock.Now())
	return ctrl.Result{}, errors.Join(err, r.report(ctx, o, s, events))
}

// report writes the status if it changed, and records the events. It applies the whole status, with required fields that are 0.
func (r *reconciler) report(ctx context.Context, o *observed, s appsv1beta1.UnitedDeploymentStatus, events []event.Event) error {
	if equality.Semantic.DeepEqual(o.ud.Status, s) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return fmt.Errorf("convert status of %s/%s: %w", o.ud.Namespace, o.ud.Name, err)
	}
	next := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": appsv1beta1.GroupVersion.String(),
		"kind":       sourceKind,
		"metadata":   map[string]any{"namespace": o.ud.Namespace, "name": o.ud.Name, "uid": string(o.ud.UID)},
		"status":     fields,
	}}
	err = r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(next), client.FieldOwner(link.HubManager), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of %s/%s: %w", o.ud.Namespace, o.ud.Name, err)
	}
	for _, e := range events {
		r.options.Events.Record(o.ud, e)
	}
	return nil
}

// sourceChanged accepts changes that can affect a slice: of spec, labels and annotations, not of our own status.
func sourceChanged() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}
