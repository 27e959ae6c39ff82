package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/gather"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podguard"
	"github.com/flotilla-io/flotilla/pkg/podstep"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=sidecarsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=sidecarsets/status,verbs=update;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=configmaps,resourceNames=kruise-configuration,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options tune the controller.
type Options struct {
	// Workers is how many SidecarSets are reconciled at once; 0 means 3.
	Workers int
	// Parallel is how many pods of one SidecarSet are written to at once; 0 means podcontrol.Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.Clock
	// Namespace is the manager's own, which has the revisions.
	Namespace string
	// Opening tells whether pods of a namespace are sent to the pod webhook. Required.
	Opening podstep.Opening
	// Guards may refuse updates of pods for a while: when their objects change, what was refused is tried again.
	Guards podguard.Guards
}

// Reconciler reconciles SidecarSets.
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
	// Parallel, Namespace and Opening are as in Options.
	Parallel  int
	Namespace string
	Opening   podstep.Opening
	// Guards are as in Options.
	Guards podguard.Guards

	pending  gather.Events
	throttle report.Throttle
	// held are the refusals of each SidecarSet that waits for one, by its key.
	held sync.Map
}

// refusals are the namespaces of the pods whose updates were refused, and since when some have been.
type refusals struct {
	namespaces sets.Set[string]
	since      time.Time
}

// Setup adds the controller to mgr.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Events: notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))), Parallel: o.Parallel, Namespace: o.Namespace, Opening: o.Opening,
		Guards: o.Guards,
	}
	labelled := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) }}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&appsv1beta1.SidecarSet{}).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&appsv1beta1.SidecarSet{}, handler.EnqueueRequestsFromMapFunc(forBase)).
		Watches(&corev1.Pod{}, r.pending.Handler(handler.EnqueueRequestsFromMapFunc(r.forPod), o.Clock)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.forNamespace), builder.WithPredicates(labelled)).
		WatchesRawSource(source.Channel(o.Opening.Changes(), handler.EnqueueRequestsFromMapFunc(r.all))).
		WithOptions(podcontrol.Queue(o.Workers))
	for _, g := range o.Guards {
		b.Watches(g.Object, handler.EnqueueRequestsFromMapFunc(r.refused))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one SidecarSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if errors.Is(err, expect.ErrGone) {
		r.throttle.Forget(req.NamespacedName)
		r.pending.Forget(req.NamespacedName)
		r.held.Delete(req.NamespacedName)
	}
	if err != nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	read := r.Clock.Now()
	p := plan(o, began)
	now := r.Clock.Now()
	measure.PlanSeconds.Observe(now.Sub(read).Seconds())
	countSteps(p.updates)
	r.pending.Took(req.NamespacedName, now.Sub(began), now)
	a := r.apply(ctx, o, p)
	told := r.hold(req.NamespacedName, &a, now)
	s, events := status(o, p, a, now)
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	later, err := r.throttle.Write(ctx, w, o.set, o.set.Status, s, mayWait(&o.set.Status, &s, events), now, events)
	return w.Result(o.set, report.Sooner(p.updates.recheck, later, told), errors.Join(a.err, err))
}

// hold notes which updates were refused, and has the status tell of it once they have been for as long as the kinds that own pods wait
// before they try again: a budget that is recounted refuses for a moment what it allows then. It returns after how long that is; 0 if never.
func (r *Reconciler) hold(key types.NamespacedName, a *applied, now time.Time) time.Duration {
	if len(a.refused) == 0 {
		r.held.Delete(key)
		return 0
	}
	is := refusals{namespaces: a.refused, since: now}
	if was, waited := r.held.Load(key); waited {
		is.since = was.(refusals).since
	}
	r.held.Store(key, is)
	left := is.since.Add(podcontrol.RefusedRecheck).Sub(now)
	if left <= 0 {
		a.waits = podcontrol.WaitsFor(a.refusals)
	}
	return max(left, 0)
}

// mayWait reports whether nothing of a status has changed but counts of pods and who they are.
func mayWait(was, is *appsv1beta1.SidecarSetStatus, events []notes.Event) bool {
	turned := report.IsConditionTrue(was.Conditions, appsv1beta1.SidecarSetActive) != report.IsConditionTrue(is.Conditions, appsv1beta1.SidecarSetActive)
	return len(events) == 0 && !turned && was.ObservedGeneration == is.ObservedGeneration && was.LatestRevision == is.LatestRevision &&
		was.CollisionCount != nil && *was.CollisionCount == *is.CollisionCount
}

// forBase returns the SidecarSet whose place another one takes.
func forBase(_ context.Context, o client.Object) []ctrl.Request {
	if s, ok := o.(*appsv1beta1.SidecarSet); ok && baseOf(s) != "" {
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: baseOf(s)}}}
	}
	return nil
}

// forPod returns the SidecarSets that select a pod, or whose sidecars it has.
func (r *Reconciler) forPod(ctx context.Context, pod client.Object) []ctrl.Request {
	has := injectedIn(pod)
	return r.concerned(ctx, func(s *appsv1beta1.SidecarSet) bool {
		only, isFixed := fixed(s)
		return slices.Contains(has, s.Name) || (!isFixed || only == pod.GetNamespace()) && selects(s, pod)
	})
}

// forNamespace returns those that select namespaces by labels.
func (r *Reconciler) forNamespace(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.concerned(ctx, func(s *appsv1beta1.SidecarSet) bool {
		_, isFixed := fixed(s)
		return !isFixed && s.Spec.NamespaceSelector != nil
	})
}

// refused returns those whose updates were refused in the namespace of an object that guards pods.
func (r *Reconciler) refused(_ context.Context, o client.Object) []ctrl.Request {
	var out []ctrl.Request
	r.held.Range(func(key, in any) bool {
		if in.(refusals).namespaces.Has(o.GetNamespace()) {
			out = append(out, ctrl.Request{NamespacedName: key.(types.NamespacedName)})
		}
		return true
	})
	return out
}

// all returns all of them.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.concerned(ctx, func(*appsv1beta1.SidecarSet) bool { return true })
}

func (r *Reconciler) concerned(ctx context.Context, is func(*appsv1beta1.SidecarSet) bool) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.SidecarSetList{}, "", is)
}
