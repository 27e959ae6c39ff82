package persistentpodstate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
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
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=persistentpodstates,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=persistentpodstates/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=configmaps,resourceNames=kruise-configuration,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// options tune the controller.
type options struct {
	control.Options

	// Namespace is the manager's own namespace, which has the whitelist.
	Namespace string
	// Opening reports whether pods in a namespace are sent to the pod webhook. Required.
	Opening podwebhook.Opening
	// StartOrdinal is the feature gate for StatefulSets of apps.kruise.io.
	StartOrdinal bool
}

// Reconciler reconciles PersistentPodStates, and generates them for workloads with the same name.
type Reconciler struct {
	*control.Controller

	// Namespace, Opening and StartOrdinal are as in Options.
	Namespace    string
	Opening      podwebhook.Opening
	StartOrdinal bool
	// Watched reports whether the cache has a kind from the whitelist. Nil means that it has all of them.
	Watched func(schema.GroupVersionKind) bool

	// notes has the last note about each workload, so that an unchanged cause is reported only once per process.
	notes *lru.Cache
}

// remembered is the number of workloads whose last note is kept.
const remembered = 1024

// setUp adds the controller to mgr.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	i := mgr.GetFieldIndexer()
	if err := errors.Join(indexByTarget(ctx, i), ownership.IndexByOwner(ctx, i, &corev1.Pod{}), ownership.IndexByNode(ctx, i)); err != nil {
		return err
	}
	more := scaletarget.NewWatcher(mgr.GetCache(), o.Namespace, scaletarget.KeyPersistentPodState, o.Clock)
	more.Changed, more.Events = workloadChanged, make(chan event.GenericEvent)
	r := &Reconciler{
		Controller: control.New(mgr, kind, fieldOwner, o.Options), Namespace: o.Namespace, Opening: o.Opening,
		StartOrdinal: o.StartOrdinal, Watched: more.Watched, notes: lru.New(remembered),
	}
	changed := control.Updates(workloadChanged)
	err := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1beta1.PersistentPodState{}).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(r.forWorkload), changed).
		Watches(&appsv1beta1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(r.forWorkload), changed).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.forPod),
			control.Updates(podChanged)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.forNode),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
			}})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		WatchesRawSource(source.Channel(o.Opening.Changes(), handler.EnqueueRequestsFromMapFunc(r.all))).
		WatchesRawSource(source.Channel(more.Events, handler.EnqueueRequestsFromMapFunc(r.forWorkload))).
		Complete(r)
	if err = errors.Join(err, mgr.Add(more)); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one PersistentPodState, and for the workload of its name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o)
	r.Planned(measure, req, began, now)
	count(p)
	a := r.apply(ctx, o, p)
	if about := p.generation.about; about != nil {
		for _, e := range generationEvents(p, a) {
			if r.isNews(about, e.Note) {
				r.Events.Record(about.Object, e)
			}
		}
	}
	if o.pps == nil || p.generation.remove {
		return ctrl.Result{}, a.err
	}
	s, events := status(o, p, now)
	return r.Report(ctx, control.Outcome{Object: o.pps, Was: o.pps.Status, Is: s, Events: events, Err: a.err})
}

// workloadChanged reports whether an update of a workload matters: its status does not.
func workloadChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		before.GetUID() != after.GetUID() || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// podChanged reports whether an update of a pod matters: it became ready, began to terminate, or is ready and has other annotations than before.
func podChanged(before, after client.Object) bool {
	oldPod, wasPod := before.(*corev1.Pod)
	newPod, isPod := after.(*corev1.Pod)
	if !wasPod || !isPod {
		return true
	}
	return podpatch.Ready(newPod) && (!podpatch.Ready(oldPod) || !maps.Equal(oldPod.Annotations, newPod.Annotations)) ||
		oldPod.UID != newPod.UID ||
		(oldPod.DeletionTimestamp == nil) != (newPod.DeletionTimestamp == nil)
}

// forWorkload returns requests for the generated PersistentPodState, which has the workload's name, and for those with the workload as their
// target.
func (r *Reconciler) forWorkload(ctx context.Context, w client.Object) []ctrl.Request {
	own := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w)}
	gvk, err := r.Client.GroupVersionKindFor(w)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not determine the kind of a workload")
		return []ctrl.Request{own}
	}
	return slices.Insert(r.requestsFor(ctx, scaletarget.Ref{Kind: gvk, NamespacedName: client.ObjectKeyFromObject(w)}, w.GetName()), 0, own)
}

// requestsFor returns requests for the PersistentPodStates with a target, except for the one with that name.
func (r *Reconciler) requestsFor(ctx context.Context, ref scaletarget.Ref, but string) []ctrl.Request {
	all, err := statesWithTarget(ctx, r.Client, ref)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the objects of an event", "kind", kind)
		return nil
	}
	var out []ctrl.Request
	for _, pps := range all {
		if pps.Name != but {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pps)})
		}
	}
	return out
}

// forPod returns the PersistentPodStates with the pod's controller as their target.
func (r *Reconciler) forPod(ctx context.Context, pod client.Object) []ctrl.Request {
	ref, ok := scaletarget.Controller(pod)
	if !ok {
		return nil
	}
	return r.requestsFor(ctx, ref, "")
}

// forNode returns the PersistentPodStates whose targets have pods on a node.
func (r *Reconciler) forNode(ctx context.Context, node client.Object) []ctrl.Request {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.MatchingFields{ownership.NodeIndex: node.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the pods of a node", "node", node.GetName())
		return nil
	}
	var out []ctrl.Request
	for i := range pods.Items {
		out = append(out, r.forPod(ctx, &pods.Items[i])...)
	}
	return out
}

// all returns all PersistentPodStates.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.PersistentPodStateList{}, "", func(*appsv1beta1.PersistentPodState) bool { return true })
}

// isNews reports whether a note differs from the last one about the same workload.
func (r *Reconciler) isNews(about client.Object, note string) bool {
	before, known := r.notes.Get(about.GetUID())
	r.notes.Add(about.GetUID(), note)
	return !known || before != note
}
