package podcontrol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Options tune the controller of a kind that owns pods.
type Options struct {
	control.Options

	// InPlace are the changes that may be made in a running pod.
	InPlace inplace.Options
	// Daemons tracks on which nodes a node daemon is alive; nil means on none.
	Daemons *nodelease.Tracker
	// Guards are asked before pods are deleted or updated.
	Guards podwebhook.Guards
	// Awaiting has new pods wait until they are sent to the pod webhook; nil means they never wait.
	Awaiting podwebhook.Awaiting
}

// Controller is what the controllers of all kinds that own pods share. A kind embeds one in its Reconciler and calls
// it where it needs it; the Controller never calls the kind.
type Controller struct {
	*control.Controller

	// InPlace are the changes that may be made in a running pod.
	InPlace inplace.Options
	// Daemons reports whether a node daemon is alive on a node; nil means on none.
	Daemons nodelease.Liveness
	// Guards are asked before pods are deleted or updated.
	Guards podwebhook.Guards
	// Awaiting is as in Options.
	Awaiting podwebhook.Awaiting
	// Overlaps finds pods that a selector matches and that are not controlled by its object.
	Overlaps ownership.OverlapScanner

	memories sync.Map // *podset.Memory by types.NamespacedName
	held     waitingObjects
	// unsent are the objects whose new pods wait until the API server sends pods to the pod webhook.
	unsent waitingObjects
}

// NewController returns the Controller of a kind.
func NewController(mgr ctrl.Manager, kind string, o Options) *Controller {
	c := &Controller{Controller: control.New(mgr, kind, "", o.Options), InPlace: o.InPlace, Guards: o.Guards, Awaiting: o.Awaiting}
	if o.Daemons != nil && o.InPlace.Env {
		c.Daemons = o.Daemons
	}
	return c
}

// Setup adds to b what all kinds that own pods watch: the object, its pods and revisions, the node daemons and the objects of guards. It also
// sets the queue options and registers the indexes. The caller adds whatever else the kind watches, and completes b.
func (c *Controller) Setup(
	ctx context.Context, mgr ctrl.Manager, b *ctrl.Builder, kind schema.GroupVersionKind, owner client.Object, o Options,
) error {
	if err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &corev1.Pod{}, &appsv1.ControllerRevision{}); err != nil {
		return err
	}
	b.Named(control.Name(kind.Kind)).For(owner).
		Watches(&corev1.Pod{}, c.Gather(ownership.EnqueueController(kind))).
		Owns(&appsv1.ControllerRevision{}).
		WithOptions(control.Queue(o.Workers))
	for _, g := range c.Guards {
		b.Watches(g.Object, c.held.wakeNamespace())
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

// Awaited returns why no pods are created for an object yet: the API server doesn't send them to the pod webhook. The object is reconciled again
// when that may have changed.
func (c *Controller) Awaited(ctx context.Context, key types.NamespacedName) (podwebhook.Wait, error) {
	if c.Awaiting == nil {
		return podwebhook.Wait{}, nil
	}
	c.unsent.set(key, true, time.Time{}) // First, so that a change after the check isn't missed.
	wait, err := c.Awaiting.Awaited(ctx, key.Namespace)
	if err != nil {
		return podwebhook.Wait{}, fmt.Errorf("check whether pods of namespace %s are sent to the pod webhook: %w", key.Namespace, err)
	}
	if wait.Why == "" {
		c.unsent.set(key, false, time.Time{})
	}
	return wait, nil
}

// NotPlanned calls NotPlanned of control.Controller, and forgets the pods of an object that is gone.
func (c *Controller) NotPlanned(
	ctx context.Context, m metric.Planning, req ctrl.Request, began time.Time, err error,
) (ctrl.Result, error) {
	if errors.Is(err, expect.ErrGone) {
		c.Overlaps.Forget(req.NamespacedName)
		c.memories.Delete(req.NamespacedName)
		c.held.set(req.NamespacedName, false, time.Time{})
		c.unsent.set(req.NamespacedName, false, time.Time{})
	}
	return c.Controller.NotPlanned(ctx, m, req, began, err)
}

// Planned records a plan in metrics: the reconcile began to read at began, and to plan at planning.
func (c *Controller) Planned(m metric.Planning, req ctrl.Request, p *podset.Plan, began, planning time.Time) {
	c.Controller.Planned(m, req, began, planning)
	Count(m, p)
}

// Waits sets r.Waits if steps of an object have been refused for RefusedRecheck or longer. A budget that is recounted after each pod refuses for
// a moment what it allows right after; the status doesn't report that.
func (c *Controller) Waits(key types.NamespacedName, r *Results, now time.Time) {
	if since, waits := c.held.since(key); waits && now.Sub(since) >= RefusedRecheck {
		r.Waits = WaitsFor(r.refused)
	}
}

// Report counts the refused steps, writes the status, sends the events and returns the result of Reconcile. It sends an event about refused
// steps only when they begin to wait, not in each reconcile while they do.
func (c *Controller) Report(ctx context.Context, m metric.Planning, r *Results, o control.Outcome) (ctrl.Result, error) {
	refused := r.Holds()
	CountHolds(m, refused)
	if waited := c.held.set(client.ObjectKeyFromObject(o.Object), len(refused) > 0, c.Clock.Now()); !waited {
		for _, h := range refused {
			o.Events = append(o.Events, event.Warning(string(h.Reason), ActionUpdate, "%s", h.Why))
		}
	}
	o.Recheck = timing.Sooner(o.Recheck, r.Recheck())
	return c.Controller.Report(ctx, o)
}
