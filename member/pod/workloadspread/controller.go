package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/flotilla-io/flotilla/apis/keys"
	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/gather"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/podstep"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/scaletarget"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads/status,verbs=update;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;replicasets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=replicasets/scale,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=configmaps,resourceNames=kruise-configuration,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options tune the controller.
type Options struct {
	// Workers is how many WorkloadSpreads are reconciled at once; 0 means 3.
	Workers int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.Clock
	// Namespace is the manager's own, which has the ConfigMap of further kinds.
	Namespace string
	// Opening tells whether pods of a namespace are sent to the pod webhook. Required.
	Opening podstep.Opening
	// Versions are the kinds whose pods are counted by version.
	Versions Versions
}

// Reconciler reconciles WorkloadSpreads.
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
	// Namespace, Opening and Versions are as in Options.
	Namespace string
	Opening   podstep.Opening
	Versions  Versions
	// Watched reports whether the cache has a kind that is in the white list; nil: it has all.
	Watched func(schema.GroupVersionKind) bool

	pending  gather.Events
	throttle report.Throttle
	// begun has the UIDs of WorkloadSpreads, by their names, that this process has reconciled.
	begun sync.Map
	// unseen has what observed.unseen was, by the names of WorkloadSpreads.
	unseen sync.Map
}

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	i := mgr.GetFieldIndexer()
	sets, _ := metadataOf(replicaSets())
	jobs, _ := metadataOf(batchv1.SchemeGroupVersion.WithKind("Job"))
	if err := errors.Join(scaletarget.IndexSpreads(ctx, i), ownership.IndexByOwner(ctx, i, &corev1.Pod{}, sets), ownership.IndexByNode(ctx, i)); err != nil {
		return err
	}
	more := scaletarget.NewWatcher(mgr.GetCache(), o.Namespace, scaletarget.KeyWorkloadSpread, o.Clock)
	more.Changed, more.Events = workloadChanged, make(chan event.GenericEvent)
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock,
		Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Events: notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))), Namespace: o.Namespace, Opening: o.Opening,
		Versions: o.Versions, Watched: more.Watched,
	}
	changed := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return workloadChanged(e.ObjectOld, e.ObjectNew) }})
	workload := handler.EnqueueRequestsFromMapFunc(r.forWorkload)
	err := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&appsv1beta1.WorkloadSpread{}).
		Watches(&appsv1beta1.WorkloadSpread{}, handler.EnqueueRequestsFromMapFunc(r.forTarget),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Watches(&appsv1.Deployment{}, workload, changed).
		Watches(&appsv1.StatefulSet{}, workload, changed).
		Watches(&appsv1beta1.CloneSet{}, workload, changed).
		Watches(&appsv1beta1.StatefulSet{}, workload, changed).
		WatchesMetadata(sets, workload, changed).
		WatchesMetadata(jobs, workload, changed).
		Watches(&corev1.Pod{}, r.podHandler(),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return podChanged(e.ObjectOld, e.ObjectNew) }})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.forNode),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
			}})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		WatchesRawSource(source.Channel(o.Opening.Changes(), handler.EnqueueRequestsFromMapFunc(r.all))).
		WatchesRawSource(source.Channel(more.Events, workload)).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err = errors.Join(err, mgr.Add(more)); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one WorkloadSpread. Pods are changed only when the status that has them is written.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.throttle.Forget(req.NamespacedName)
			r.pending.Forget(req.NamespacedName)
		}
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	now := r.Clock.Now()
	p := plan(o, now)
	planned := r.Clock.Now()
	measure.PlanSeconds.Observe(planned.Sub(now).Seconds())
	r.pending.Took(req.NamespacedName, planned.Sub(began), planned)
	count(p)
	s, events := status(o, p, now)
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	mayWait := equality.Semantic.DeepEqual(roomOf(&o.ws.Status), roomOf(&s))
	write, later := r.throttle.Due(req.NamespacedName, !equality.Semantic.DeepEqual(o.ws.Status, s), mayWait, now)
	if !write {
		s = o.ws.Status
	}
	wrote, err := w.Write(ctx, o.ws, o.ws.Status, s, events)
	if wrote {
		r.throttle.Wrote(req.NamespacedName, now)
	}
	recheck := report.Sooner(p.recheck, later)
	if err != nil || !wrote && !mayWait { // If somebody else has written the status, an event is on the way.
		return w.Result(o.ws, recheck, err)
	}
	a := r.apply(ctx, o, p)
	for _, e := range done(a) {
		r.Events.Record(o.ws, e)
	}
	switch {
	case a.more:
		recheck = time.Millisecond
	case a.skipped: // What has changed of a pod may be nothing that matters here.
		recheck = report.Sooner(recheck, podcontrol.RetrySkipped)
	}
	return w.Result(o.ws, recheck, a.err)
}

// workloadChanged reports whether an update of a workload matters: of its status only the revision does.
func workloadChanged(was, is client.Object) bool {
	return was.GetGeneration() != is.GetGeneration() || (was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil) ||
		was.GetUID() != is.GetUID() || newest(was, nil) != newest(is, nil) || !maps.Equal(was.GetAnnotations(), is.GetAnnotations())
}

// podChanged reports whether an update of a pod matters: it takes or leaves a place, belongs to another version or subset, got a node,
// or can't be scheduled.
func podChanged(before, after client.Object) bool {
	was, wasPod := before.(*corev1.Pod)
	is, isPod := after.(*corev1.Pod)
	if !wasPod || !isPod {
		return true
	}
	return podpatch.Active(was) != podpatch.Active(is) || was.UID != is.UID || !maps.Equal(was.Labels, is.Labels) || was.Spec.NodeName != is.Spec.NodeName ||
		was.Annotations[keys.MatchedWorkloadSpread] != is.Annotations[keys.MatchedWorkloadSpread] ||
		was.Annotations[keys.PodDeletionCost] != is.Annotations[keys.PodDeletionCost] ||
		!equality.Semantic.DeepEqual(podpatch.Find(was, corev1.PodScheduled), podpatch.Find(is, corev1.PodScheduled))
}

// leaves reports whether a pod, as it was and is, leaves its place.
func leaves(before, after any) bool {
	was, wasPod := before.(*corev1.Pod)
	is, isPod := after.(*corev1.Pod)
	return wasPod && isPod && podpatch.Active(was) && !podpatch.Active(is)
}

// forTarget returns all with the target of one, that is new or gone: only the oldest counts.
func (r *Reconciler) forTarget(ctx context.Context, o client.Object) []ctrl.Request {
	ws, ok := o.(*appsv1beta1.WorkloadSpread)
	if !ok {
		return nil
	}
	return r.having(ctx, scaletarget.SpreadTarget(ws))
}

// forWorkload returns those that have a workload, or a controller of it, as target.
func (r *Reconciler) forWorkload(ctx context.Context, w client.Object) []ctrl.Request {
	gvk, err := r.Client.GroupVersionKindFor(w)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not tell the kind of a workload")
		return nil
	}
	own := scaletarget.Ref{Kind: gvk, NamespacedName: client.ObjectKeyFromObject(w)}
	return append(r.having(ctx, own), r.forControllers(ctx, w)...)
}

// podHandler enqueues those that forPod returns. Events of pods that leave a place don't wait, since the next pod waits for the place.
func (r *Reconciler) podHandler() handler.EventHandler {
	now := handler.EnqueueRequestsFromMapFunc(r.forPod)
	gathered := r.pending.Handler(now, r.Clock)
	return handler.Funcs{
		CreateFunc: gathered.Create,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			if leaves(e.ObjectOld, e.ObjectNew) {
				now.Update(ctx, e, q)
				return
			}
			gathered.Update(ctx, e, q)
		},
		DeleteFunc: now.Delete,
	}
}

// forPod returns those that have a controller of the pod as target.
func (r *Reconciler) forPod(ctx context.Context, pod client.Object) []ctrl.Request {
	return r.forControllers(ctx, pod)
}

func (r *Reconciler) forControllers(ctx context.Context, o client.Object) []ctrl.Request {
	chain, _, err := scaletarget.Chain(ctx, r.Client, o, r.readable)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not find the workload of an event", "kind", kind)
	}
	out := make([]ctrl.Request, 0, len(chain))
	for _, ref := range chain {
		out = append(out, r.having(ctx, ref)...)
	}
	return out
}

// readable reports whether a read of a kind from the cache does not wait.
func (r *Reconciler) readable(kind schema.GroupVersionKind) bool {
	g := kind.GroupKind()
	return cached(g) || r.Watched != nil && r.Watched(kind)
}

// having returns requests for those with a target.
func (r *Reconciler) having(ctx context.Context, ref scaletarget.Ref) []ctrl.Request {
	all, err := scaletarget.Spreads(ctx, r.Client, ref)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the objects of an event", "kind", kind)
		return nil
	}
	out := make([]ctrl.Request, 0, len(all))
	for _, ws := range all {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ws)})
	}
	return out
}

// forNode returns those whose pods on a node have no subset.
func (r *Reconciler) forNode(ctx context.Context, node client.Object) []ctrl.Request {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.MatchingFields{ownership.NodeIndex: node.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the pods of a node", "node", node.GetName())
		return nil
	}
	var out []ctrl.Request
	for i := range pods.Items {
		if _, has := matchedOf(&pods.Items[i]); !has {
			out = append(out, r.forPod(ctx, &pods.Items[i])...)
		}
	}
	slices.SortFunc(out, func(a, b ctrl.Request) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// all returns all of them.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.WorkloadSpreadList{}, "", func(*appsv1beta1.WorkloadSpread) bool { return true })
}
