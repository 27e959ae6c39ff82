package launchpriority

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-io/flotilla/pkg/control"
	notes "github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
)

// The manager's own policy limits the ConfigMaps to those that a pod owns. Their names are not known in advance.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler lets the containers of pods start in order.
type Reconciler struct {
	*control.Controller

	// waits are what pods wait for. A restart starts their time over.
	waits control.Memory[wait]
}

// wait is what a pod's containers wait for.
type wait struct {
	on       string
	since    time.Time
	reported bool
}

// setUp adds the controller to mgr.
func setUp(mgr ctrl.Manager, o control.Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", Feature, err)
	}
	r := &Reconciler{Controller: control.New(mgr, Feature, "", o)}
	err := control.NewBuilder(mgr, Feature, o.Workers).
		For(&corev1.Pod{}, builder.WithPredicates(concerns())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", Feature, err)
	}
	return nil
}

// concerns passes only events that may change a plan. A pod that is gone, or that no longer waits, is forgotten.
func concerns() predicate.Predicate {
	held := func(o client.Object) bool { pod, ok := o.(*corev1.Pod); return ok && waiting(pod) }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return held(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return held(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return held(e.ObjectOld) || held(e.ObjectNew) // Any change: after a conflict, its event starts the next reconcile.
		},
	}
}

// Reconcile lets the next containers of one pod start.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	pod := &corev1.Pod{}
	err := r.Expect.Read(ctx, r.Client, r.Live, req.NamespacedName, pod, func(client.Reader, bool) error {
		if !waiting(pod) {
			return expect.ErrGone
		}
		return nil
	}, func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) { yield(pod) }
	})
	if errors.Is(err, expect.ErrGone) {
		r.waits.Forget(req.NamespacedName)
	}
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	o := &observed{pod: pod, since: now}
	if w := r.waits.Get(pod); !w.since.IsZero() && w.on == plan(o, now).waits {
		o.since, o.reported = w.since, w.reported
	}
	p := plan(o, now)
	r.Planned(measure, req, began, now)
	r.waits.Change(pod, func(w *wait) { *w = wait{on: p.waits, since: o.since, reported: o.reported || p.stalled != ""} })
	if p.stalled != "" {
		measure.Wait(reasonStalled)
		r.Events.Record(pod, notes.Warning(eventStalled, actionLaunch, "%s", p.stalled))
	}
	err = r.apply(ctx, pod, p)
	if taken := (takenError{}); errors.As(err, &taken) {
		r.Events.Record(pod, notes.Warning(eventTaken, actionLaunch, "%s", taken.message))
		return ctrl.Result{RequeueAfter: retryTaken}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.recheck}, nil
}
