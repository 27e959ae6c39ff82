package podunavailablebudget

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/gather"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/scaletarget"
)

// +kubebuilder:rbac:groups=policy.kruise.io,resources=podunavailablebudgets,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy.kruise.io,resources=podunavailablebudgets/status,verbs=patch;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps,resources=deployments;replicasets;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=replicasets/scale,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;daemonsets;statefulsets;uniteddeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/scale,verbs=get
// +kubebuilder:rbac:groups="",resources=replicationcontrollers,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=replicationcontrollers/scale,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options tune the controller.
type Options struct {
	// Workers is how many budgets are reconciled at once; 0 means 3.
	Workers int
	// Parallel is how many writes to pods run at once for one budget; 0 means podcontrol.Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler reconciles PodUnavailableBudgets.
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
	// Parallel is as in Options.
	Parallel int
	// Watch has changes of a kind that the cache does not have wake the budgets of its objects. It may be called again and again.
	Watch func(schema.GroupVersionKind)

	pending  gather.Events
	throttle report.Throttle
}

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if err := indexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Parallel: o.Parallel,
		Events:   notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))),
	}
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return workloadChanged(e.ObjectOld, e.ObjectNew) }}
	forWorkload := handler.EnqueueRequestsFromMapFunc(r.forWorkload)
	b := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&policyv1beta1.PodUnavailableBudget{}).
		Watches(&corev1.Pod{}, r.pending.Handler(handler.EnqueueRequestsFromMapFunc(r.forPod), o.Clock),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return podChanged(e.ObjectOld, e.ObjectNew, o.Clock.Now())
			}}))
	for _, w := range []client.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1beta1.CloneSet{}, &appsv1beta1.StatefulSet{}, &appsv1beta1.DaemonSet{},
		&appsv1beta1.UnitedDeployment{},
	} {
		b.Watches(w, forWorkload, builder.WithPredicates(changed))
	}
	c, err := b.WatchesMetadata(replicaSets(), forWorkload, builder.WithPredicates(changed)).WithOptions(podcontrol.Queue(o.Workers)).Build(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	var mu sync.Mutex
	watched := sets.New[schema.GroupVersionKind]()
	r.Watch = func(kind schema.GroupVersionKind) {
		mu.Lock()
		defer mu.Unlock()
		if watched.Has(kind) {
			return
		}
		watched.Insert(kind)
		if err := c.Watch(source.Kind(mgr.GetCache(), scaletarget.Empty(kind), forWorkload, changed)); err != nil {
			mgr.GetLogger().Error(err, "Could not watch a kind of workloads", "kind", kind.String())
		}
	}
	return nil
}

// Reconcile counts the pods of one budget.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	now := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName, now)
	if errors.Is(err, expect.ErrGone) {
		r.throttle.Forget(req.NamespacedName)
		r.pending.Forget(req.NamespacedName)
	}
	if err != nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	began := r.Clock.Now()
	p := plan(o, now)
	planned := r.Clock.Now()
	measure.PlanSeconds.Observe(planned.Sub(began).Seconds())
	r.pending.Took(req.NamespacedName, planned.Sub(now), planned)
	count(p)
	s, events := status(o, p, planned)
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	mayWait := len(events) == 0 && judgesAlike(&o.budget.Status, &s)
	later, err := r.throttle.Write(ctx, w, o.budget, o.budget.Status, s, mayWait, planned, events)
	return w.Result(o.budget, report.Sooner(p.recheck, later), errors.Join(err, r.apply(ctx, o, p), p.fault))
}

// workloadChanged reports whether an update of a workload matters: its status does not, but that of a DaemonSet, which tells how many
// nodes should run it. Metadata do not show it.
func workloadChanged(was, is client.Object) bool {
	switch is := is.(type) {
	case *appsv1beta1.DaemonSet:
		if before, ok := was.(*appsv1beta1.DaemonSet); ok && before.Status.DesiredNumberScheduled != is.Status.DesiredNumberScheduled {
			return true
		}
	case *metav1.PartialObjectMetadata:
		if sameKind(daemonSet)(is.GroupVersionKind()) {
			return was.GetResourceVersion() != is.GetResourceVersion()
		}
	}
	return was.GetGeneration() != is.GetGeneration() || (was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil) ||
		was.GetUID() != is.GetUID() || !maps.Equal(was.GetAnnotations(), is.GetAnnotations())
}

// podChanged reports whether an update of a pod matters: whether it is available, which containers run, what selects it, and its budget's
// name.
func podChanged(before, after client.Object, now time.Time) bool {
	was, wasPod := before.(*corev1.Pod)
	is, isPod := after.(*corev1.Pod)
	if !wasPod || !isPod {
		return true
	}
	served, _ := available(was, now)
	serves, _ := available(is, now)
	return was.UID != is.UID || (was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil) || was.Status.Phase != is.Status.Phase ||
		served != serves || inplace.Unseen(was) != inplace.Unseen(is) || !slices.Equal(running(was), running(is)) || !maps.Equal(was.Labels, is.Labels) || named(was) != named(is)
}

// running are the IDs of the containers that run in a pod: when they change, the kubelet may have acted on an update.
func running(pod *corev1.Pod) []string {
	var out []string
	for _, c := range inplace.Containers(pod) {
		if st := inplace.Status(pod, c.Name); st != nil && st.State.Running != nil {
			out = append(out, st.ContainerID)
		}
	}
	return out
}

// forPod returns the budgets of a pod.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	all, err := protecting(ctx, r.Client, pod)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the budgets of a pod", "pod", pod.Name)
		return nil
	}
	var out []ctrl.Request
	for _, b := range all {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
	}
	return out
}

// forWorkload returns the budgets whose pods a workload may have: those of the namespace that have a selector, and those that have it
// or what controls it as their target.
func (r *Reconciler) forWorkload(ctx context.Context, w client.Object) []ctrl.Request {
	gvk, err := r.Client.GroupVersionKindFor(w)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not tell the kind of a workload")
		return nil
	}
	above, err := chain(ctx, r.Client, w)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not read what controls a workload", "workload", w.GetName())
	}
	above = append(above, scaletarget.Ref{Kind: gvk, NamespacedName: client.ObjectKeyFromObject(w)})
	return ownership.RequestsFor(ctx, r.Client, &policyv1beta1.PodUnavailableBudgetList{}, w.GetNamespace(),
		func(b *policyv1beta1.PodUnavailableBudget) bool {
			ref, byRef := refOf(b)
			if !byRef {
				return true
			}
			return slices.ContainsFunc(above, ref.Same)
		})
}
