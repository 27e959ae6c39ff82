package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
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

// options tune the controller.
type options struct {
	control.Options

	// Namespace is the manager's own namespace, which has the ConfigMap that lists further kinds.
	Namespace string
	// Opening reports whether pods in a namespace are sent to the pod webhook. Required.
	Opening podwebhook.Opening
	// versions are the kinds whose pods are counted by version.
	Versions versions
}

// Reconciler reconciles WorkloadSpreads.
type Reconciler struct {
	*control.Controller

	// Namespace, Opening and Versions are as in options.
	Namespace string
	Opening   podwebhook.Opening
	Versions  versions
	// Watched reports whether the cache has a kind from the whitelist. Nil means that it has all of them.
	Watched func(schema.GroupVersionKind) bool

	memory control.Memory[known]
}

// known is what this process knows about a WorkloadSpread.
type known struct {
	// begun means that this process has reconciled it.
	begun bool
	// unseen is what observed.unseen was.
	unseen map[string]time.Time
}

// setUp adds the controller to mgr.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
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
		Controller: control.New(mgr, kind, fieldOwner, o.Options), Namespace: o.Namespace, Opening: o.Opening,
		Versions: o.Versions, Watched: more.Watched,
	}
	changed := control.Updates(workloadChanged)
	workload := handler.EnqueueRequestsFromMapFunc(r.forWorkload)
	err := control.NewBuilder(mgr, kind, o.Workers).
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
			control.Updates(podChanged)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.forNode),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
			}})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.forAll)).
		WatchesRawSource(source.Channel(o.Opening.Changes(), handler.EnqueueRequestsFromMapFunc(r.forAll))).
		WatchesRawSource(source.Channel(more.Events, workload)).
		Complete(r)
	if err = errors.Join(err, mgr.Add(more)); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one WorkloadSpread. Pods are changed only after the status that counts them is written.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, began, now)
	count(p)
	s, events := status(o, p, now)
	mayWait := equality.Semantic.DeepEqual(roomOf(&o.ws.Status), roomOf(&s))
	outcome := control.Outcome{Object: o.ws, Was: o.ws.Status, Is: s, MayWait: mayWait, Events: events}
	wrote, later, err := r.Write(ctx, outcome)
	outcome.Recheck = timing.Sooner(p.recheck, later)
	if err != nil || !wrote && !mayWait { // If somebody else has written the status, an event is on the way.
		return r.Result(outcome, err)
	}
	a := r.apply(ctx, o, p)
	for _, e := range doneEvents(a) {
		r.Events.Record(o.ws, e)
	}
	switch {
	case a.more:
		outcome.Recheck = time.Millisecond
	case a.skipped: // The update of the pod that caused the conflict might not enqueue this WorkloadSpread.
		outcome.Recheck = timing.Sooner(outcome.Recheck, control.RetrySkipped)
	}
	return r.Result(outcome, a.err)
}

// workloadChanged reports whether an update of a workload matters: of its status, only the revision does.
func workloadChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		before.GetUID() != after.GetUID() || newestVersion(before, nil) != newestVersion(after, nil) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// podChanged reports whether an update of a pod matters: it takes or leaves a place, belongs to another version or subset, got a node,
// or can't be scheduled.
func podChanged(before, after client.Object) bool {
	oldPod, wasPod := before.(*corev1.Pod)
	newPod, isPod := after.(*corev1.Pod)
	if !wasPod || !isPod {
		return true
	}
	return podpatch.Active(oldPod) != podpatch.Active(newPod) || oldPod.UID != newPod.UID ||
		!maps.Equal(oldPod.Labels, newPod.Labels) || oldPod.Spec.NodeName != newPod.Spec.NodeName ||
		oldPod.Annotations[keys.MatchedWorkloadSpread] != newPod.Annotations[keys.MatchedWorkloadSpread] ||
		oldPod.Annotations[keys.PodDeletionCost] != newPod.Annotations[keys.PodDeletionCost] ||
		!equality.Semantic.DeepEqual(podpatch.Find(oldPod, corev1.PodScheduled), podpatch.Find(newPod, corev1.PodScheduled))
}

// leavesPlace reports whether an update makes a pod leave its place.
func leavesPlace(before, after any) bool {
	oldPod, wasPod := before.(*corev1.Pod)
	current, isPod := after.(*corev1.Pod)
	return wasPod && isPod && podpatch.Active(oldPod) && !podpatch.Active(current)
}

// forTarget returns the WorkloadSpreads with the same target as one that is new or gone, of which only the oldest counts, and those of the
// target's controllers, to which its pods belong otherwise.
func (r *Reconciler) forTarget(ctx context.Context, o client.Object) []ctrl.Request {
	ws, ok := o.(*appsv1beta1.WorkloadSpread)
	if !ok {
		return nil
	}
	ref := scaletarget.SpreadTarget(ws)
	out := r.requestsFor(ctx, ref)
	if !r.readable(ref.Kind) {
		return out
	}
	target, err := scaletarget.Get(ctx, r.Client, ref)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not read the target of an object", "kind", kind)
	}
	if target != nil {
		out = append(out, r.forControllers(ctx, target)...)
	}
	return out
}

// forWorkload returns the WorkloadSpreads with a workload, or a controller of it, as their target.
func (r *Reconciler) forWorkload(ctx context.Context, w client.Object) []ctrl.Request {
	gvk, err := r.Client.GroupVersionKindFor(w)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not determine the kind of a workload")
		return nil
	}
	own := scaletarget.Ref{Kind: gvk, NamespacedName: client.ObjectKeyFromObject(w)}
	return append(r.requestsFor(ctx, own), r.forControllers(ctx, w)...)
}

// podHandler enqueues the WorkloadSpreads that forPod returns. Events of pods that leave a place don't wait, since the next pod waits for the place.
func (r *Reconciler) podHandler() handler.EventHandler {
	now := handler.EnqueueRequestsFromMapFunc(r.forPod)
	gathered := r.Gather(now)
	return handler.Funcs{
		CreateFunc: gathered.Create,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			if leavesPlace(e.ObjectOld, e.ObjectNew) {
				now.Update(ctx, e, q)
				return
			}
			gathered.Update(ctx, e, q)
		},
		DeleteFunc: now.Delete,
	}
}

// forPod returns the WorkloadSpreads with a controller of the pod as their target.
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
		out = append(out, r.requestsFor(ctx, ref)...)
	}
	return out
}

// readable reports whether a read of a kind from the cache doesn't block.
func (r *Reconciler) readable(kind schema.GroupVersionKind) bool {
	g := kind.GroupKind()
	return alwaysCached(g) || r.Watched != nil && r.Watched(kind)
}

// requestsFor returns requests for the WorkloadSpreads with a target.
func (r *Reconciler) requestsFor(ctx context.Context, ref scaletarget.Ref) []ctrl.Request {
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

// forNode returns the WorkloadSpreads that have pods without a subset on a node.
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

// forAll returns requests for all WorkloadSpreads.
func (r *Reconciler) forAll(ctx context.Context, _ client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.WorkloadSpreadList{}, "", func(*appsv1beta1.WorkloadSpread) bool { return true })
}
