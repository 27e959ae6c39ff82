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
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
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

// options tune the controller.
type options struct {
	control.Options
}

// Reconciler reconciles PodUnavailableBudgets.
type Reconciler struct {
	*control.Controller

	// Watch starts a watch on a kind that the cache doesn't have; its events enqueue the budgets of its objects. It may be called repeatedly.
	Watch func(schema.GroupVersionKind)

	// begun is true for budgets that this process has begun to count; see expectDeletions.
	begun control.Memory[bool]
}

// setUp adds the controller to mgr.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if err := indexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &Reconciler{Controller: control.New(mgr, kind, fieldOwner, o.Options)}
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return workloadChanged(e.ObjectOld, e.ObjectNew) }}
	forWorkload := handler.EnqueueRequestsFromMapFunc(r.forWorkload)
	b := control.NewBuilder(mgr, kind, o.Workers).
		For(&policyv1beta1.PodUnavailableBudget{}).
		Watches(&corev1.Pod{}, r.Gather(handler.EnqueueRequestsFromMapFunc(r.forPod)),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return podChanged(e.ObjectOld, e.ObjectNew, o.Clock.Now())
			}}))
	for _, w := range []client.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1beta1.CloneSet{}, &appsv1beta1.StatefulSet{}, &appsv1beta1.DaemonSet{},
		&appsv1beta1.UnitedDeployment{},
	} {
		b.Watches(w, forWorkload, builder.WithPredicates(changed))
	}
	c, err := b.WatchesMetadata(replicaSets(), forWorkload, builder.WithPredicates(changed)).Build(r)
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
			mgr.GetLogger().Error(err, "Could not watch a kind of workload", "kind", kind.String())
		}
	}
	return nil
}

// Reconcile counts the pods of one budget.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName, began)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	planning := r.Clock.Now()
	p := plan(o, began) // As of the time at which grants were read.
	r.Planned(measure, req, began, planning)
	count(p)
	s, events := status(o, p, began)
	outcome := control.Outcome{
		Object: o.budget, Was: o.budget.Status, Is: s, MayWait: len(events) == 0 && judgesAlike(&o.budget.Status, &s), Events: events, Err: p.fault,
	}
	_, later, err := r.Write(ctx, outcome) // Before the pods are written, which takes longer: the webhook judges by the status.
	outcome.Recheck = timing.Sooner(p.recheck, later)
	return r.Result(outcome, errors.Join(err, r.apply(ctx, o, p)))
}

// workloadChanged reports whether an update of a workload matters. A status matters only for a DaemonSet, where it has the number of nodes that
// should run the pod. PartialObjectMetadata doesn't contain it, so any change matters there.
func workloadChanged(old, updated client.Object) bool {
	switch updated := updated.(type) {
	case *appsv1beta1.DaemonSet:
		if before, ok := old.(*appsv1beta1.DaemonSet); ok && before.Status.DesiredNumberScheduled != updated.Status.DesiredNumberScheduled {
			return true
		}
	case *metav1.PartialObjectMetadata:
		if sameKind(daemonSet)(updated.GroupVersionKind()) {
			return old.GetResourceVersion() != updated.GetResourceVersion()
		}
	}
	return old.GetGeneration() != updated.GetGeneration() || (old.GetDeletionTimestamp() == nil) != (updated.GetDeletionTimestamp() == nil) ||
		old.GetUID() != updated.GetUID() || !maps.Equal(old.GetAnnotations(), updated.GetAnnotations())
}

// podChanged reports whether an update of a pod matters: whether it is available, which containers run, what selects it, and its budget's
// name.
func podChanged(before, after client.Object, now time.Time) bool {
	oldPod, wasPod := before.(*corev1.Pod)
	newPod, isPod := after.(*corev1.Pod)
	if !wasPod || !isPod {
		return true
	}
	served, _ := available(oldPod, now)
	serves, _ := available(newPod, now)
	return oldPod.UID != newPod.UID || (oldPod.DeletionTimestamp == nil) != (newPod.DeletionTimestamp == nil) ||
		oldPod.Status.Phase != newPod.Status.Phase || served != serves || inplace.Unobserved(oldPod) != inplace.Unobserved(newPod) ||
		!slices.Equal(runningContainers(oldPod), runningContainers(newPod)) || !maps.Equal(oldPod.Labels, newPod.Labels) ||
		budgetName(oldPod) != budgetName(newPod)
}

// runningContainers are the IDs of the containers that run in a pod: when they change, the kubelet may have acted on an update.
func runningContainers(pod *corev1.Pod) []string {
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
	all, err := protectingBudgets(ctx, r.Client, pod)
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

// forWorkload returns the budgets whose pods a workload may have: those in the namespace that have a selector, and those whose target is the workload
// or what controls it.
func (r *Reconciler) forWorkload(ctx context.Context, w client.Object) []ctrl.Request {
	gvk, err := r.Client.GroupVersionKindFor(w)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not determine the kind of a workload")
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
