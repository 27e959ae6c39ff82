package podcontrol

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/gather"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podguard"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/podstep"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Options tune the controller of a kind that owns pods.
type Options struct {
	// Workers is how many objects are reconciled at once; 0 means 3.
	Workers int
	// Parallel is how many requests run at once for one object; 0 means the constant Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes before reading from the apiserver; 0 means
	// expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock returns the time. Required.
	Clock clock.PassiveClock
	// InPlace are the changes that may be made in a running pod.
	InPlace inplace.Options
	// Daemons tracks on which nodes a node daemon is alive; nil means on none.
	Daemons *nodelease.Tracker
	// Guards are asked before pods are deleted or updated.
	Guards podguard.Guards
	// Awaiting has new pods wait until they are sent to the pod webhook; nil means they never wait.
	Awaiting podstep.Awaiting
}

// Controller is what the controllers of all kinds that own pods share. A kind embeds one in its Reconciler and calls
// it where it needs it; the Controller never calls the kind.
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
	// Parallel is how many requests run at once for one object; 0 means the constant Parallel.
	Parallel int
	// InPlace are the changes that may be made in a running pod.
	InPlace inplace.Options
	// Daemons reports whether a node daemon is alive on a node; nil means on none.
	Daemons nodelease.Liveness
	// Guards are asked before pods are deleted or updated.
	Guards podguard.Guards
	// Awaiting is as in Options.
	Awaiting podstep.Awaiting
	// Overlaps finds pods that a selector matches and that are not controlled by its object.
	Overlaps ownership.OverlapScanner

	pending  gather.Events
	throttle report.Throttle
	memories sync.Map // *podset.Memory by types.NamespacedName
	held     held
	// unsent are the objects whose new pods wait until they are sent to the pod webhook.
	unsent held
}

// ControllerName returns the name of a kind's controller: in the metrics of controller-runtime, in the log, and as the reporter
// of events. OpenKruise uses the same names, and dashboards and filters rely on them.
func ControllerName(kind string) string { return strings.ToLower(kind) + "-controller" }

// NewController returns the Controller of a kind.
func NewController(mgr ctrl.Manager, kind string, o Options) *Controller {
	c := &Controller{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Parallel: o.Parallel, InPlace: o.InPlace, Guards: o.Guards, Awaiting: o.Awaiting,
		Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Events: event.New(mgr.GetEventRecorder(ControllerName(kind))),
	}
	if o.Daemons != nil && o.InPlace.Env {
		c.Daemons = o.Daemons
	}
	return c
}

// Setup adds to b what all kinds that own pods watch: the object, its pods and revisions, the node daemons and what guards pods. It
// also sets the queue options and registers the indexes. The caller adds what else the kind watches, and completes b.
func (c *Controller) Setup(
	ctx context.Context, mgr ctrl.Manager, b *ctrl.Builder, kind schema.GroupVersionKind, owner client.Object, o Options,
) error {
	if err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &corev1.Pod{}, &appsv1.ControllerRevision{}); err != nil {
		return err
	}
	b.Named(ControllerName(kind.Kind)).For(owner).
		Watches(&corev1.Pod{}, c.Gather(ownership.EnqueueController(kind))).
		Owns(&appsv1.ControllerRevision{}).
		WithOptions(Queue(o.Workers))
	for _, g := range c.Guards {
		b.Watches(g.Object, c.held.wake())
	}
	if c.Awaiting != nil {
		b.WatchesRawSource(source.Channel(c.Awaiting.Changes(), c.unsent.wakeAll()))
	}
	if c.Daemons == nil {
		return nil
	}
	if err := ownership.IndexByNode(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	b.WatchesRawSource(o.Daemons.Source(mgr.GetCache(), ownership.RequestsForNode(mgr.GetClient(), kind)))
	return nil
}

// Gather batches the requests of h for the same object, see package gather.
func (c *Controller) Gather(h handler.EventHandler) handler.EventHandler {
	return c.pending.Handler(h, c.Clock)
}

// Memory returns what is remembered of the pods of an object. Only a reconcile of the object may use it.
func (c *Controller) Memory(key types.NamespacedName) *podset.Memory {
	stored, _ := c.memories.LoadOrStore(key, &podset.Memory{})
	m, _ := stored.(*podset.Memory)
	return m
}

// DaemonNodes returns the nodes of pods on which a node daemon is alive.
func (c *Controller) DaemonNodes(pods []*corev1.Pod) map[string]bool {
	if c.Daemons == nil {
		return nil
	}
	return nodelease.Nodes(c.Daemons, pods)
}

// Awaited returns why no pods are created for an object now: they are not sent to the pod webhook yet. The object is reconciled again when
// that may have changed.
func (c *Controller) Awaited(ctx context.Context, key types.NamespacedName) (podstep.Wait, error) {
	if c.Awaiting == nil {
		return podstep.Wait{}, nil
	}
	c.unsent.set(key, true, time.Time{}) // Before the question: a change after it is not missed.
	wait, err := c.Awaiting.Awaited(ctx, key.Namespace)
	if err != nil {
		return podstep.Wait{}, fmt.Errorf("look whether pods of namespace %s are sent to the pod webhook: %w", key.Namespace, err)
	}
	if wait.Why == "" {
		c.unsent.set(key, false, time.Time{})
	}
	return wait, nil
}

// NotPlanned ends a reconcile that could not read what it needs. began is when it started. If the object is gone, its
// expectations are forgotten.
func (c *Controller) NotPlanned(
	ctx context.Context, m metric.Planning, req ctrl.Request, began time.Time, err error,
) (ctrl.Result, error) {
	if errors.Is(err, expect.ErrGone) {
		c.throttle.Forget(req.NamespacedName)
		c.Overlaps.Forget(req.NamespacedName)
		c.pending.Forget(req.NamespacedName)
		c.memories.Delete(req.NamespacedName)
		c.held.set(req.NamespacedName, false, time.Time{})
		c.unsent.set(req.NamespacedName, false, time.Time{})
	} else {
		c.took(req, began)
	}
	return expect.Settle(ctx, err, m.Waits.WithLabelValues(metric.ReasonCache))
}

// Planned records a plan in metrics: the reconcile began to read at one time, and to plan at the other.
func (c *Controller) Planned(m metric.Planning, req ctrl.Request, p *podset.Plan, began, planning time.Time) {
	Count(m, p, c.Clock.Since(planning))
	c.took(req, began)
}

// took records how long it took to read and plan.
func (c *Controller) took(req ctrl.Request, began time.Time) {
	now := c.Clock.Now()
	c.pending.Took(req.NamespacedName, now.Sub(began), now)
}

// Waits sets r.Waits if the steps of an object have been refused since RefusedRecheck or longer. A budget that is recounted after each
// pod refuses for a moment what it allows then: the status does not tell of that.
func (c *Controller) Waits(key types.NamespacedName, r *Results, now time.Time) {
	if since, waits := c.held.since(key); waits && now.Sub(since) >= RefusedRecheck {
		r.Waits = WaitsFor(r.refused)
	}
}

// Outcome is the result of a reconcile.
type Outcome struct {
	// Object is the object as it was observed or written, Was its status before and Is its new status.
	Object  client.Object
	Was, Is any
	// CountsOnly: Was and Is differ in pod counts only, so that the write may wait.
	CountsOnly bool
	// Events are sent after the status was written.
	Events []event.Event
	// Recheck is when time alone could change the plan; 0 means never.
	Recheck time.Duration
	// Err joins the errors of the writes.
	Err error
}

// Report counts the refused steps, writes the status, sends the events and returns the result of Reconcile. It sends an event about
// refused steps when they begin to wait, and not in each reconcile until they wait no more.
func (c *Controller) Report(ctx context.Context, m metric.Planning, r *Results, o Outcome) (ctrl.Result, error) {
	refused := r.Holds()
	CountHolds(m, refused)
	if waited := c.held.set(client.ObjectKeyFromObject(o.Object), len(refused) > 0, c.Clock.Now()); !waited {
		for _, h := range refused {
			o.Events = append(o.Events, event.Warning(string(h.Reason), ActionUpdate, "%s", h.Why))
		}
	}
	w := report.Writer{Client: c.Client, Expect: c.Expect, Events: c.Events}
	later, err := c.throttle.Write(ctx, w, o.Object, o.Was, o.Is, o.CountsOnly || report.Reworded(o.Was, o.Is, o.Err), c.Clock.Now(), o.Events)
	return w.Result(o.Object, report.Sooner(o.Recheck, r.Recheck(), later), errors.Join(o.Err, err))
}
