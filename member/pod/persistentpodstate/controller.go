package persistentpodstate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
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
	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/podstep"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/scaletarget"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=persistentpodstates,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=persistentpodstates/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=configmaps,resourceNames=kruise-configuration,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options tune the controller.
type Options struct {
	// Workers is how many PersistentPodStates are reconciled at once; 0 means 3.
	Workers int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.Clock
	// Namespace is the manager's own, which has the ConfigMap of further kinds.
	Namespace string
	// Opening tells whether pods of a namespace are sent to the pod webhook. Required.
	Opening podstep.Opening
	// StartOrdinal is the gate of StatefulSets of apps.kruise.io.
	StartOrdinal bool
}

// Reconciler reconciles PersistentPodStates, and generates those of workloads of the same name.
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
	// Namespace, Opening and StartOrdinal are as in Options.
	Namespace    string
	Opening      podstep.Opening
	StartOrdinal bool
	// Watched reports whether the cache has a kind that is in the white list; nil: it has all.
	Watched func(schema.GroupVersionKind) bool

	// said has the last note about each workload, so that a cause that stays is told once. A restart tells it again.
	said *lru.Cache
}

// remembered is for how many workloads the last note is known.
const remembered = 1024

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	i := mgr.GetFieldIndexer()
	if err := errors.Join(indexByTarget(ctx, i), ownership.IndexByOwner(ctx, i, &corev1.Pod{}), ownership.IndexByNode(ctx, i)); err != nil {
		return err
	}
	more := scaletarget.NewWatcher(mgr.GetCache(), o.Namespace, scaletarget.KeyPersistentPodState, o.Clock)
	more.Changed, more.Events = workloadChanged, make(chan event.GenericEvent)
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock,
		Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Events: notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))), Namespace: o.Namespace, Opening: o.Opening,
		StartOrdinal: o.StartOrdinal, Watched: more.Watched, said: lru.New(remembered),
	}
	changed := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return workloadChanged(e.ObjectOld, e.ObjectNew) }})
	err := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&appsv1beta1.PersistentPodState{}).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(r.forWorkload), changed).
		Watches(&appsv1beta1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(r.forWorkload), changed).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.forPod),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return podChanged(e.ObjectOld, e.ObjectNew) }})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.forNode),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
			}})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		WatchesRawSource(source.Channel(o.Opening.Changes(), handler.EnqueueRequestsFromMapFunc(r.all))).
		WatchesRawSource(source.Channel(more.Events, handler.EnqueueRequestsFromMapFunc(r.forWorkload))).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err = errors.Join(err, mgr.Add(more)); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one PersistentPodState, and for the workload of its name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	now := r.Clock.Now()
	p := plan(o)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	count(p)
	a := r.apply(ctx, o, p)
	if about := p.generation.about; about != nil {
		for _, e := range generated(p, a) {
			if r.news(about, e.Note) {
				r.Events.Record(about.Object, e)
			}
		}
	}
	if o.pps == nil || p.generation.remove {
		return ctrl.Result{}, a.err
	}
	s, events := status(o, p, now)
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	_, err = w.Write(ctx, o.pps, o.pps.Status, s, events)
	return w.Result(o.pps, 0, errors.Join(a.err, err))
}

// workloadChanged reports whether an update of a workload matters: its status does not.
func workloadChanged(was, is client.Object) bool {
	return was.GetGeneration() != is.GetGeneration() || (was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil) ||
		was.GetUID() != is.GetUID() || !maps.Equal(was.GetAnnotations(), is.GetAnnotations())
}

// podChanged reports whether an update of a pod matters: it became ready or begins to terminate, or a ready one got other
// annotations.
func podChanged(before, after client.Object) bool {
	was, wasPod := before.(*corev1.Pod)
	is, isPod := after.(*corev1.Pod)
	if !wasPod || !isPod {
		return true
	}
	return podpatch.Ready(is) && (!podpatch.Ready(was) || !maps.Equal(was.Annotations, is.Annotations)) || was.UID != is.UID ||
		(was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil)
}

// forWorkload returns the request of the workload's own name, for a generated PersistentPodState, and of those that have it as
// target.
func (r *Reconciler) forWorkload(ctx context.Context, w client.Object) []ctrl.Request {
	own := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w)}
	gvk, err := r.Client.GroupVersionKindFor(w)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not tell the kind of a workload")
		return []ctrl.Request{own}
	}
	return slices.Insert(r.having(ctx, scaletarget.Ref{Kind: gvk, NamespacedName: client.ObjectKeyFromObject(w)}, w.GetName()), 0, own)
}

// having returns requests for those with a target, but for one of that name.
func (r *Reconciler) having(ctx context.Context, ref scaletarget.Ref, but string) []ctrl.Request {
	all, err := having(ctx, r.Client, ref)
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

// forPod returns those that have the pod's controller as target.
func (r *Reconciler) forPod(ctx context.Context, pod client.Object) []ctrl.Request {
	ref, ok := scaletarget.Controller(pod)
	if !ok {
		return nil
	}
	return r.having(ctx, ref, "")
}

// forNode returns those that remember pods on a node.
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

// all returns all of them.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.PersistentPodStateList{}, "", func(*appsv1beta1.PersistentPodState) bool { return true })
}

// news reports whether a note is another one than the last about the same workload.
func (r *Reconciler) news(about client.Object, note string) bool {
	was, known := r.said.Get(about.GetUID())
	r.said.Add(about.GetUID(), note)
	return !known || was != note
}
