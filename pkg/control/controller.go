package control

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// Parallel is how many requests run at once for one object by default. With requests of 20 ms, that is 3,200 per second; an API server accepts
// 100 concurrent requests on a connection.
const Parallel = 64

// RetrySkipped is how soon a reconcile repeats writes that were skipped, where not every change of an object starts one.
const RetrySkipped = time.Second

// Options tune a controller.
type Options struct {
	// Workers is how many objects are reconciled at once; 0 means 3.
	Workers int
	// Parallel is how many requests run at once for one object; 0 means the constant Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes before reading from the apiserver; 0 means
	// expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock returns the time. Required.
	Clock clock.Clock
}

// Controller is what all controllers share. It may be used concurrently.
type Controller struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the apiserver.
	Live client.Reader
	// Clock returns the time.
	Clock clock.PassiveClock
	// Expect holds what the cache must show.
	Expect *expect.Store
	// Events sends events.
	Events event.Recorder
	// Owner is the field owner of status writes; empty means the client's.
	Owner client.FieldOwner
	// Parallel is how many requests run at once for one object; 0 means the constant Parallel.
	Parallel int
	// Throttle delays status writes that may wait.
	Throttle report.Throttle

	// children batches events of children; nil if the controller watches none that are batched.
	children *Batch
}

// Name returns the name of a kind's controller: in the metrics of controller-runtime, in the log, and as the reporter of events.
// OpenKruise uses the same names, and dashboards and filters rely on them.
func Name(kind string) string { return strings.ToLower(kind) + "-controller" }

// New returns the Controller of a kind, or of a feature. owner is the field owner of its status writes.
func New(mgr ctrl.Manager, kind string, owner client.FieldOwner, o Options) *Controller {
	return &Controller{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Events: event.New(mgr.GetEventRecorder(Name(kind))), Owner: owner, Parallel: cmp.Or(o.Parallel, Parallel),
	}
}

// NewBuilder returns a builder with the name and the queue of a kind's controller. Workers is how many objects are reconciled at once; 0 means 3.
func NewBuilder(mgr ctrl.Manager, kind string, workers int) *ctrl.Builder {
	return ctrl.NewControllerManagedBy(mgr).Named(Name(kind)).WithOptions(Queue(workers))
}

// Updates lets only those updates pass that changed reports.
func Updates(changed func(before, after client.Object) bool) builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) }})
}

// Gather batches the requests of h, an event handler for children, for the same object: see Batch. It must be called before the controller
// starts.
func (c *Controller) Gather(h handler.EventHandler) handler.EventHandler {
	if c.children == nil {
		c.children = &Batch{}
	}
	return c.children.Handler(h, c.Clock)
}

// NotPlanned ends a reconcile that could not read what it needs. began is when it started. If the object is gone, its state is forgotten.
// The errors of package expect are no failures; any other is retried.
func (c *Controller) NotPlanned(ctx context.Context, m metric.Planning, req ctrl.Request, began time.Time, err error) (ctrl.Result, error) {
	if errors.Is(err, expect.ErrGone) {
		c.Throttle.Forget(req.NamespacedName)
		if c.children != nil {
			c.children.Forget(req.NamespacedName)
		}
	} else {
		c.observeDuration(req, began)
	}
	return expect.Settle(ctx, err, m.Waits.WithLabelValues(metric.ReasonCache))
}

// Planned records how long a plan took. The reconcile began to read at began and to plan at planning.
func (c *Controller) Planned(m metric.Planning, req ctrl.Request, began, planning time.Time) {
	m.PlanSeconds.Observe(c.Clock.Since(planning).Seconds())
	c.observeDuration(req, began)
}

// observeDuration records how long it took to read and plan.
func (c *Controller) observeDuration(req ctrl.Request, began time.Time) {
	if c.children == nil {
		return
	}
	now := c.Clock.Now()
	c.children.Took(req.NamespacedName, now.Sub(began), now)
}

// Outcome is the result of a reconcile.
type Outcome struct {
	// Object is the object as it was observed or written, Was its status before and Is its new status.
	Object  client.Object
	Was, Is any
	// MayWait: the write may be delayed, for example because Was and Is differ in pod counts only.
	MayWait bool
	// Collect is how long a write that may wait is delayed, so that later changes join it; 0 means the Throttle's.
	Collect time.Duration
	// Events are sent after the status was written.
	Events []event.Event
	// Recheck is when time alone could change the plan; 0 means never.
	Recheck time.Duration
	// Err joins the errors of the other writes.
	Err error
}

// Report writes the status, sends the events and returns the result of Reconcile.
func (c *Controller) Report(ctx context.Context, o Outcome) (ctrl.Result, error) {
	_, later, err := c.Write(ctx, o)
	o.Recheck = timing.Sooner(o.Recheck, later)
	return c.Result(o, err)
}

// Write writes the status unless it is unchanged or may wait, and sends the events in any case. later is when to try again; 0 means never.
// A status that differs in nothing but the messages of conditions may wait if the reconcile has failed: see report.Reworded.
func (c *Controller) Write(ctx context.Context, o Outcome) (wrote bool, later time.Duration, err error) {
	key, now := client.ObjectKeyFromObject(o.Object), c.Clock.Now()
	var write bool
	changed := !apiequality.Semantic.DeepEqual(o.Was, o.Is)
	if mayWait := o.MayWait || report.Reworded(o.Was, o.Is, o.Err); mayWait && o.Collect > 0 {
		write, later = c.Throttle.DueIn(key, changed, o.Collect, now)
	} else {
		write, later = c.Throttle.Due(key, changed, mayWait, now)
	}
	if !write {
		o.Is = o.Was
	}
	if wrote, err = c.writer().Write(ctx, o.Object, o.Was, o.Is, o.Events); wrote {
		c.Throttle.Wrote(key, now)
	}
	return wrote, later, err
}

// Result returns the result of Reconcile after the writes of an Outcome; err is the error of writing the status. In a terminating
// namespace errors are expected, and the object is checked again later.
func (c *Controller) Result(o Outcome, err error) (ctrl.Result, error) {
	return c.writer().Result(o.Object, o.Recheck, errors.Join(o.Err, err))
}

func (c *Controller) writer() report.Writer {
	return report.Writer{Client: c.Client, Expect: c.Expect, Events: c.Events, Owner: c.Owner}
}
