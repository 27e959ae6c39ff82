package launchpriority

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
)

// The manager's own policy limits the ConfigMaps to those that a pod owns. Their names are not known before.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options tune the controller.
type Options struct {
	// Workers is how many pods are reconciled at once; 0 means 3.
	Workers int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler lets the containers of pods start in order.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Clock is the clock.
	Clock clock.PassiveClock
	// Expect holds what the cache must show.
	Expect *expect.Store
	// Events sends events.
	Events notes.Recorder

	mu sync.Mutex
	// waits are what pods wait for. A restart starts their time over.
	waits map[types.NamespacedName]wait
}

// wait is what a pod's containers wait for.
type wait struct {
	uid   types.UID
	on    string
	since time.Time
	told  bool
}

// Setup adds the controller to mgr.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", Feature, err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Expect: expect.New(Feature, o.Clock, o.ExpectationTimeout),
		Events: notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(Feature))),
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(Feature)).
		For(&corev1.Pod{}, builder.WithPredicates(concerns())).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", Feature, err)
	}
	return nil
}

// concerns lets those events pass by which a plan may change. A pod that is gone, or that no longer waits, is forgotten.
func concerns() predicate.Predicate {
	held := func(o client.Object) bool { pod, ok := o.(*corev1.Pod); return ok && waiting(pod) }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return held(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return held(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return held(e.ObjectOld) || held(e.ObjectNew) // Any change: after a conflict, that is the event that goes on.
		},
	}
}

// Reconcile lets the next containers of one pod start.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
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
		r.forget(req.NamespacedName)
	}
	if err != nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	now := r.Clock.Now()
	o := &observed{pod: pod, since: now}
	if w := r.waitOf(req.NamespacedName); w.uid == pod.UID && w.on == plan(o, now).waits {
		o.since, o.told = w.since, w.told
	}
	p := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	r.remember(req.NamespacedName, wait{uid: pod.UID, on: p.waits, since: o.since, told: o.told || p.stalled != ""})
	if p.stalled != "" {
		measure.Waits.WithLabelValues(reasonStalled).Inc()
		r.Events.Record(pod, notes.Warning(EventStalled, actionLaunch, "%s", p.stalled))
	}
	err = r.apply(ctx, pod, p)
	if taken := (takenError{}); errors.As(err, &taken) {
		r.Events.Record(pod, notes.Warning(EventTaken, actionLaunch, "%s", taken.message))
		return ctrl.Result{RequeueAfter: retryTaken}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.recheck}, nil
}

func (r *Reconciler) waitOf(key types.NamespacedName) wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits[key]
}

func (r *Reconciler) remember(key types.NamespacedName, w wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits == nil {
		r.waits = map[types.NamespacedName]wait{}
	}
	r.waits[key] = w
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waits, key)
}
