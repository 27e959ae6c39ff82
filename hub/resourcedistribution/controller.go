package resourcedistribution

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// sourceKind is the kind of the objects that this controller reconciles, and of their slices.
const sourceKind = "ResourceDistribution"

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
	// ClosedNamespaces get no copy in a member unless the object names them.
	ClosedNamespaces []string
}

// statusDelay is how long a change of status that may wait is collected with later ones, and the shortest time between two such
// writes.
const statusDelay = 3 * time.Second

type reconciler struct {
	placement.Client

	options  Options
	writer   report.Writer
	throttle report.Throttle
}

func newReconciler(c placement.Client, o Options) *reconciler {
	return &reconciler{
		Client: c, options: o,
		writer:   report.Writer{Client: c, Expect: c.Expect, Events: o.Events, Owner: link.HubManager},
		throttle: report.Throttle{Interval: statusDelay, Collect: statusDelay},
	}
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup starts the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := errors.Join(expect.Register(metrics.Registry), measure.Register(metrics.Registry)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := errors.Join(row.IndexBySource(ctx, mgr.GetFieldIndexer()), indexByCluster(ctx, mgr.GetFieldIndexer())); err != nil {
		return err
	}
	r := newReconciler(placement.Client{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Rows: o.Store, Expect: expect.New(sourceKind, o.Clock, o.ExpectationTimeout),
	}, o)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hub-resourcedistribution").
		For(&appsv1beta1.ResourceDistribution{}).
		Watches(&fleetv1alpha1.MemberWork{}, placement.RowHandler(sourceKind)).
		Watches(&fleetv1alpha1.MemberWork{}, r.emptied()).
		Watches(&fleetv1alpha1.MemberCluster{}, placement.ClusterHandler(sourceKind, mgr.GetClient(), r.placedIn)).
		WatchesRawSource(&placement.Fresh{
			Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Scheme: mgr.GetScheme(), Lists: []client.ObjectList{
				&fleetv1alpha1.MemberClusterList{}, &fleetv1alpha1.MemberWorkList{}, &appsv1beta1.ResourceDistributionList{},
			},
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(o.Workers, 1)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the hub's ResourceDistribution controller: %w", err)
	}
	sweeper := &placement.Sweeper{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Rows: o.Store, Events: o.Events, Clock: o.Clock,
		Kind: sourceKind, New: func() client.Object { return &appsv1beta1.ResourceDistribution{} },
	}
	return sweeper.Setup(mgr)
}

// Reconcile reconciles one object.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if errors.Is(err, expect.ErrGone) {
		r.throttle.Forget(req.NamespacedName)
	}
	if err != nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues("CacheBehind"))
	}
	start := r.options.Clock.Now()
	p := plan(o)
	measure.PlanSeconds.Observe(r.options.Clock.Since(start).Seconds())
	if p.idle {
		return ctrl.Result{}, nil
	}
	a, err := r.Apply(ctx, o.rd, o.Fleet, p.Plan)
	measure.Wrote(a)
	if p.RemoveFinalizer {
		return ctrl.Result{}, err
	}
	later, reported := r.report(ctx, o, status(o, p, a, r.options.Clock.Now()))
	return r.writer.Result(o.rd, later, errors.Join(err, reported))
}

// report writes the status if it changed, and then sends the events of the change, which are those between the statuses that were
// written. It returns after how long a status that may wait is to be written.
func (r *reconciler) report(ctx context.Context, o *observed, s appsv1beta1.ResourceDistributionStatus) (time.Duration, error) {
	key, now, before := client.ObjectKeyFromObject(o.rd), r.options.Clock.Now(), o.rd.Status
	changed := !equality.Semantic.DeepEqual(before, s)
	if write, later := r.throttle.Due(key, changed, mayWait(before, s), now); !write {
		return later, nil
	}
	wrote, err := r.writer.Write(ctx, o.rd, before, s, nil)
	if !wrote {
		return 0, err // After a conflict, the watch enqueues the object again.
	}
	r.throttle.Wrote(key, now)
	head := resourceOf(o.rd)
	for _, e := range eventsFor(o.rd.Generation, head.Kind+" "+head.Name, before, s) {
		r.options.Events.Record(o.rd, e)
	}
	return 0, nil
}
