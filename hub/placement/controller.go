package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// Options configures the controller of a placed kind.
type Options struct {
	// Store writes rows.
	Store *row.Store
	// Events records events.
	Events event.Recorder
	// Clock is the real clock, except in tests.
	Clock clock.PassiveClock
	// Workers is how many objects of a kind are reconciled concurrently. It must be at least 1.
	Workers int
	// ExpectationTimeout is how long the cache may lack our own writes; 0 means 5 minutes.
	ExpectationTimeout time.Duration
	// Fresh and Sweeper are shared by all kinds. Only Setup needs them.
	Fresh   *Fresh
	Sweeper *Sweeper
	// LocalMember is true if this cluster also runs the member stack, which then reconciles objects without clusters.
	LocalMember bool
}

// NewClient returns the Client for objects of a kind.
func (o Options) NewClient(kind string, c client.Client, live client.Reader) Client {
	return Client{Client: c, Live: live, Rows: o.Store, Expect: expect.New(kind, o.Clock, o.ExpectationTimeout)}
}

// Reporter returns a Reporter that writes the statuses of those objects.
func (o Options) Reporter(c Client) *Reporter {
	return &Reporter{
		Writer:   report.Writer{Client: c, Expect: c.Expect, Events: o.Events, Owner: link.HubManager},
		events:   o.Events,
		clock:    o.Clock,
		throttle: report.Throttle{Interval: StatusDelay, Collect: StatusDelay},
	}
}

// Reporter writes the statuses of the objects of a kind. Changes that may wait are written later. It is safe for concurrent use.
type Reporter struct {
	// Writer writes immediately.
	Writer report.Writer

	events   event.Recorder
	clock    clock.PassiveClock
	throttle report.Throttle
}

// Forget drops what is known about an object that is gone.
func (r *Reporter) Forget(key client.ObjectKey) { r.throttle.Forget(key) }

// Report writes the status of an object if it changed, and then sends the events for the change, which is the one between the two statuses
// that were written. Report returns how soon a status that waits must be written.
func (r *Reporter) Report(ctx context.Context, object client.Object, before, after any, change Change) (time.Duration, error) {
	key, now := client.ObjectKeyFromObject(object), r.clock.Now()
	changed := !equality.Semantic.DeepEqual(before, after)
	if !changed || change.Collect > 0 {
		if write, later := r.throttle.DueIn(key, changed, change.Collect, now); !write {
			return later, nil
		}
	}
	wrote, err := r.Writer.Write(ctx, object, before, after, nil)
	if !wrote {
		return 0, err //nolint:wrapcheck // It says what was written. After a conflict, the watch enqueues the object again.
	}
	r.throttle.Wrote(key, now)
	for _, e := range change.Events {
		r.events.Record(object, e)
	}
	return 0, nil
}

// ErrPlanAgain means that Require has failed because of a status that the kind now changes. That is no failure: the status is written, and its
// event starts the next reconcile.
var ErrPlanAgain = errors.New("the plan depends on a status that is out of date")

// Kind is a kind whose objects have one row in each cluster they are placed in. It holds the functions that its Controller calls, in call
// order. O is what a reconcile has read, P is what it plans, and S is the kind's status.
type Kind[O Observed, P Planned, S any] struct {
	// Name is the kind. Object and List return empty objects and lists.
	Name   string
	Object func() client.Object
	List   func() client.ObjectList
	// Where returns where an object is placed.
	Where func(client.Object) []Where
	// Metrics are the metrics of the kind.
	Metrics RowMetrics
	// Observe reads what a reconcile needs. It starts with Client.Fleet, and returns its errors.
	Observe func(context.Context, Client, client.ObjectKey) (O, error)
	// Plan and Status are pure functions; both get the time. Status also returns the status as it was read.
	Plan   func(O, time.Time) P
	Status func(O, P, Summary, time.Time) (before, after S)
	// Change returns how a change of the status is reported.
	Change func(o O, before, after S) Change
	// Indexes adds more indexes. It may be nil.
	Indexes func(context.Context, client.FieldIndexer) error
	// Rows is another handler for all rows, if rows of other sources matter to the kind. It may be nil.
	Rows func(client.Reader) handler.EventHandler
	// Watch adds more watches. It may be nil.
	Watch func(*builder.Builder) *builder.Builder
	// Require writes what the rows of an object name, before anything else is written. It may be nil. After an error nothing else is written,
	// and the error is reported, except for ErrPlanAgain.
	Require func(context.Context, Client, O, P) error
	// Prepare writes what the rows of an object need, before the rows are written. It may be nil. Its problems and errors don't prevent any
	// row.
	Prepare func(context.Context, Client, O, P) ([]Problem, error)
	// Gone is called for an object that is not in the cache. It may be nil.
	Gone func(context.Context, Client, client.ObjectKey) error
}

// Observed is what a reconcile has read for one object. It embeds a Fleet.
type Observed interface {
	// Source returns the object.
	Source() client.Object
	// Placement returns the Fleet.
	Placement() Fleet
}

// Planned is the next step for one object. It embeds a Plan.
type Planned interface {
	// Step returns the Plan.
	Step() Plan
}

// Placement implements Observed for types that embed Fleet.
func (f Fleet) Placement() Fleet { return f }

// Step implements Planned for types that embed Plan.
func (p Plan) Step() Plan { return p }

// Controller reconciles the objects of one Kind.
type Controller[O Observed, P Planned, S any] struct {
	Client

	kind     Kind[O, P, S]
	clock    clock.PassiveClock
	reporter *Reporter
}

// New returns the controller of a kind, without watches.
func (k Kind[O, P, S]) New(o Options, c client.Client, live client.Reader) *Controller[O, P, S] {
	clients := o.NewClient(k.Name, c, live)
	return &Controller[O, P, S]{Client: clients, kind: k, clock: o.Clock, reporter: o.Reporter(clients)}
}

// Index adds the indexes that the controller needs.
func (k Kind[O, P, S]) Index(ctx context.Context, i client.FieldIndexer) error {
	err := errors.Join(row.IndexBySource(ctx, i), IndexByCluster(ctx, i, k.Object(), k.Where))
	if k.Indexes != nil {
		err = errors.Join(err, k.Indexes(ctx, i))
	}
	return err
}

// Placed returns a function that lists the objects of the kind that are placed in a cluster. It reads from a cache with the index.
func (k Kind[O, P, S]) Placed(cache client.Reader) Placed {
	return func(ctx context.Context, cluster string, sets ...map[string]string) ([]client.ObjectKey, error) {
		all, err := In(ctx, cache, k.List, k.Where, cluster, sets...)
		out := make([]client.ObjectKey, 0, len(all))
		for _, o := range all {
			out = append(out, client.ObjectKeyFromObject(o))
		}
		return out, err
	}
}

// Setup starts the controller of a kind, and adds the kind to the Sweeper.
func (k Kind[O, P, S]) Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := errors.Join(expect.Register(metrics.Registry), k.Metrics.Register(metrics.Registry)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := k.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("hub-"+strings.ToLower(k.Name)).
		For(k.Object()).
		Watches(&fleetv1alpha1.MemberWork{}, RowHandler(k.Name)).
		Watches(&fleetv1alpha1.MemberCluster{}, ClusterHandler(k.Name, mgr.GetClient(), k.Placed(mgr.GetClient()))).
		WatchesRawSource(o.Fresh.Source(nil, &fleetv1alpha1.MemberClusterList{}, &fleetv1alpha1.MemberWorkList{}, k.List())).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(o.Workers, 1)})
	if k.Rows != nil {
		b = b.Watches(&fleetv1alpha1.MemberWork{}, k.Rows(mgr.GetClient()))
	}
	if k.Watch != nil {
		b = k.Watch(b)
	}
	if err := b.Complete(k.New(o, mgr.GetClient(), mgr.GetAPIReader())); err != nil {
		return fmt.Errorf("set up the hub's %s controller: %w", k.Name, err)
	}
	o.Sweeper.Add(k.Name, k.Object, o.Store)
	return nil
}

// Reconcile reconciles one object.
func (r *Controller[O, P, S]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.kind.Observe(ctx, r.Client, req.NamespacedName)
	if errors.Is(err, expect.ErrGone) {
		r.reporter.Forget(req.NamespacedName)
		if r.kind.Gone != nil {
			if err := r.kind.Gone(ctx, r.Client, req.NamespacedName); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if err != nil {
		return expect.Settle(ctx, err, r.kind.Metrics.Waits.WithLabelValues(metric.ReasonCache))
	}
	start := r.clock.Now()
	p := r.kind.Plan(o, start)
	r.kind.Metrics.PlanSeconds.Observe(r.clock.Since(start).Seconds())
	object, fleet, plan := o.Source(), o.Placement(), p.Step()
	if plan.Idle {
		return ctrl.Result{}, nil
	}
	a, err := r.write(ctx, o, p)
	if a.Withheld && ownership.Passed(err) { // The cache is behind. What has changed may not belong to the object, and then has no event.
		return ctrl.Result{RequeueAfter: recheckPassed}, nil
	}
	// The object that was read is older than its finalizer, so a status write would be refused. The event of the finalizer write follows.
	if plan.RemoveFinalizer || plan.AddFinalizer && err == nil {
		return ctrl.Result{}, err
	}
	before, after := r.kind.Status(o, p, Summarize(fleet, plan, a), r.clock.Now())
	later, reported := r.reporter.Report(ctx, object, before, after, r.kind.Change(o, before, after))
	if errors.Is(err, ErrPlanAgain) {
		err = nil
	}
	return r.reporter.Writer.Result(object, timing.Sooner(later, plan.Recheck, a.Recheck, fleet.EvictsIn()), errors.Join(err, reported))
}

// write writes what was planned. The error is also in the result.
func (r *Controller[O, P, S]) write(ctx context.Context, o O, p P) (Result, error) {
	object, fleet, plan := o.Source(), o.Placement(), p.Step()
	if r.kind.Require != nil {
		if err := r.kind.Require(ctx, r.Client, o, p); err != nil {
			a := unwritten(fleet, plan)
			a.Withheld, a.Err = true, err
			return a, err
		}
	}
	var problems []Problem
	var unprepared error
	if r.kind.Prepare != nil {
		problems, unprepared = r.kind.Prepare(ctx, r.Client, o, p)
	}
	a, err := r.Apply(ctx, object, fleet, plan)
	r.kind.Metrics.Wrote(a)
	a.Err, a.Problems = errors.Join(unprepared, err), append(a.Problems, problems...)
	return a, a.Err
}
