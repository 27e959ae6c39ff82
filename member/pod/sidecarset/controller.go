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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	notes "github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
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
	control.Options

	// Namespace is the manager's own namespace, which holds the revisions.
	Namespace string
	// Opening reports whether pods of a namespace are sent to the pod webhook. Required.
	Opening podwebhook.Opening
	// Guards may temporarily refuse updates of pods. When one of their objects changes, the updates refused in its namespace are retried.
	Guards podwebhook.Guards
}

// Reconciler reconciles SidecarSets.
type Reconciler struct {
	*control.Controller

	// Namespace and Opening are as in Options.
	Namespace string
	Opening   podwebhook.Opening
	// Guards are as in Options.
	Guards podwebhook.Guards

	// refused maps each SidecarSet to its refused updates.
	refused sync.Map
}

// refusedUpdates holds the namespaces of the pods whose updates were refused, and the time of the first refusal.
type refusedUpdates struct {
	namespaces sets.Set[string]
	since      time.Time
}

// Setup adds the controller to mgr.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	r := &Reconciler{
		Controller: control.New(mgr, kind, fieldOwner, o.Options), Namespace: o.Namespace, Opening: o.Opening, Guards: o.Guards,
	}
	labelsChanged := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) }}
	b := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1beta1.SidecarSet{}).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&appsv1beta1.SidecarSet{}, handler.EnqueueRequestsFromMapFunc(forBase)).
		Watches(&corev1.Pod{}, r.Gather(handler.EnqueueRequestsFromMapFunc(r.forPod))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.forNamespace), builder.WithPredicates(labelsChanged)).
		WatchesRawSource(source.Channel(o.Opening.Changes(), handler.EnqueueRequestsFromMapFunc(r.forAll)))
	for _, g := range o.Guards {
		b.Watches(g.Object, handler.EnqueueRequestsFromMapFunc(r.forGuard))
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
		r.refused.Delete(req.NamespacedName)
	}
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, began, now)
	countSteps(p.updates)
	a := r.apply(ctx, o, p)
	retryRefused := r.trackRefusals(req.NamespacedName, &a, now)
	s, events := status(o, p, a, now)
	return r.Report(ctx, control.Outcome{
		Object: o.set, Was: o.set.Status, Is: s, MayWait: mayWait(&o.set.Status, &s, events), Events: events,
		Recheck: timing.Sooner(p.updates.recheck, retryRefused), Err: a.err,
	})
}

// trackRefusals remembers refused updates. The status reports them only once they have lasted for podcontrol.RefusedRecheck, because a budget
// that is being recounted may refuse an update for a moment. It returns when to retry, or 0 if no update is refused: no watch event tells when
// a webhook of another program allows an update.
func (r *Reconciler) trackRefusals(key types.NamespacedName, a *applied, now time.Time) time.Duration {
	if len(a.refusedNamespaces) == 0 {
		r.refused.Delete(key)
		return 0
	}
	current := refusedUpdates{namespaces: a.refusedNamespaces, since: now}
	if earlier, waited := r.refused.Load(key); waited {
		current.since = earlier.(refusedUpdates).since
	}
	r.refused.Store(key, current)
	if left := current.since.Add(podcontrol.RefusedRecheck).Sub(now); left > 0 {
		return left
	}
	a.waits = podcontrol.WaitsFor(a.refusals)
	return podcontrol.RefusedRecheck
}

// mayWait reports whether writing a status may be delayed: pod counts and conditions other than Active may have changed, but nothing else.
func mayWait(before, after *appsv1beta1.SidecarSetStatus, events []notes.Event) bool {
	active := func(s *appsv1beta1.SidecarSetStatus) bool {
		return report.IsConditionTrue(s.Conditions, appsv1beta1.SidecarSetActive)
	}
	return len(events) == 0 && active(before) == active(after) &&
		before.ObservedGeneration == after.ObservedGeneration && before.LatestRevision == after.LatestRevision &&
		before.CollisionCount != nil && *before.CollisionCount == *after.CollisionCount
}

// forBase returns the SidecarSet that a canary replaces.
func forBase(_ context.Context, o client.Object) []ctrl.Request {
	if s, ok := o.(*appsv1beta1.SidecarSet); ok && baseOf(s) != "" {
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: baseOf(s)}}}
	}
	return nil
}

// forPod returns the SidecarSets that select a pod, or whose sidecars it has.
func (r *Reconciler) forPod(ctx context.Context, pod client.Object) []ctrl.Request {
	has := injectedIn(pod)
	return r.requestsWhere(ctx, func(s *appsv1beta1.SidecarSet) bool {
		only, single := singleNamespace(s)
		return slices.Contains(has, s.Name) || (!single || only == pod.GetNamespace()) && selects(s, pod)
	})
}

// forNamespace returns the SidecarSets that select namespaces by labels.
func (r *Reconciler) forNamespace(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.requestsWhere(ctx, func(s *appsv1beta1.SidecarSet) bool {
		_, single := singleNamespace(s)
		return !single && s.Spec.NamespaceSelector != nil
	})
}

// forGuard returns the SidecarSets with refused updates in the namespace of an object that guards pods.
func (r *Reconciler) forGuard(_ context.Context, o client.Object) []ctrl.Request {
	var out []ctrl.Request
	r.refused.Range(func(key, in any) bool {
		if in.(refusedUpdates).namespaces.Has(o.GetNamespace()) {
			out = append(out, ctrl.Request{NamespacedName: key.(types.NamespacedName)})
		}
		return true
	})
	return out
}

// forAll returns all SidecarSets.
func (r *Reconciler) forAll(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.requestsWhere(ctx, func(*appsv1beta1.SidecarSet) bool { return true })
}

func (r *Reconciler) requestsWhere(ctx context.Context, selects func(*appsv1beta1.SidecarSet) bool) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.SidecarSetList{}, "", selects)
}
