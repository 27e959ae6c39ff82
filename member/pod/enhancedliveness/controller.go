package enhancedliveness

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets;daemonsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodepodprobes,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// options tune the controllers.
type options struct {
	// Workers is how many workloads of a kind are reconciled at once; 0 means 3.
	Workers int
	// Daemons tracks on which nodes a node daemon is alive; nil means on none.
	Daemons *nodelease.Tracker
	// Guards are asked before a container is restarted.
	Guards podwebhook.Guards
	// Clock is required.
	Clock clock.PassiveClock
}

// daemons reports what daemons do on a node.
type daemons interface{ Does(node, what string) bool }

// Reconciler reconciles workloads of one kind. Before it writes, it decides again by what the apiserver returns, so it needs no memory of its writes.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	Events event.Recorder
	// daemons may be nil: none is alive.
	Daemons daemons
	// Guards are asked before a container is restarted.
	Guards podwebhook.Guards

	kind kind
	// reported holds what events have reported about workloads, so that each is recorded only once per process.
	reported control.Memory[map[string]bool]
	pending  control.Batch
}

// setUp adds a controller to mgr for each kind of workload.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", Feature, err)
	}
	if err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &corev1.Pod{}); err != nil {
		return err
	}
	if err := ownership.IndexByNode(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	events := event.New(mgr.GetEventRecorder(control.Name(Feature)))
	for _, k := range kinds() {
		r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Events: events, Guards: o.Guards, kind: k}
		b := r.builder(mgr, o.Workers)
		if o.Daemons != nil {
			r.Daemons = o.Daemons
			b.WatchesRawSource(o.Daemons.Source(mgr.GetCache(), ownership.RequestsForNode(mgr.GetClient(), k.gvk)))
		}
		if err := b.Complete(r); err != nil {
			return fmt.Errorf("set up controller of %s for %s: %w", Feature, k.gvk.Kind, err)
		}
	}
	return nil
}

// builder says what the controller watches, besides node daemons.
func (r *Reconciler) builder(mgr ctrl.Manager, workers int) *ctrl.Builder {
	return control.NewBuilder(mgr, r.kind.gvk.Kind+Feature, workers).
		For(r.kind.empty(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, r.pending.Handler(ownership.EnqueueController(r.kind.gvk), r.Clock), builder.WithPredicates(podMatters())).
		Watches(&appsv1beta1.ContainerRecreateRequest{}, handler.EnqueueRequestsFromMapFunc(r.forRequest)).
		Watches(&appsv1alpha1.NodePodProbe{}, r.pending.Handler(r.resultHandler(), r.Clock))
}

// Reconcile takes the next step for one workload.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, r.Client, req.NamespacedName, false)
	if err != nil {
		return ctrl.Result{}, err
	}
	if o.object == nil {
		r.reported.Forget(req.NamespacedName)
		r.pending.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	now := r.Clock.Now()
	p := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	if len(p.restarts)+len(p.drop) > 0 {
		// The cache may lag behind: a request may exist, a pod may no longer be ready, or a container may have been replaced.
		if o, err = r.observe(ctx, r.Live, req.NamespacedName, true); err != nil || o.object == nil {
			return ctrl.Result{}, err
		}
		p = plan(o, now)
		if len(p.restarts)+len(p.drop) == 0 {
			measure.Wait(metric.ReasonCache)
		}
	}
	for _, reason := range p.waits {
		measure.Wait(reason)
	}
	planned := r.Clock.Now()
	r.pending.Took(req.NamespacedName, planned.Sub(began), planned)
	refused, err := r.apply(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.reportDelays(o.object, p, refused)}, nil
}

// podMatters passes only events of pods that may change a plan.
func podMatters() predicate.Predicate {
	ours := func(o client.Object) bool { pod, ok := o.(*corev1.Pod); return ok && hasLiveness(pod) }
	return predicate.Funcs{
		CreateFunc:  func(e ctrlevent.CreateEvent) bool { return ours(e.Object) },
		DeleteFunc:  func(e ctrlevent.DeleteEvent) bool { return ours(e.Object) },
		GenericFunc: func(ctrlevent.GenericEvent) bool { return false },
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
			return (ours(e.ObjectOld) || ours(e.ObjectNew)) && podChanged(e.ObjectOld, e.ObjectNew)
		},
	}
}

// podChanged reports whether an update of a pod matters.
func podChanged(before, after client.Object) bool {
	a, isOne := before.(*corev1.Pod)
	b, isOther := after.(*corev1.Pod)
	return !isOne || !isOther || a.UID != b.UID || a.Spec.NodeName != b.Spec.NodeName || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
		a.Annotations[keys.ContainerProbeContext] != b.Annotations[keys.ContainerProbeContext] ||
		!apiequality.Semantic.DeepEqual(a.Labels, b.Labels) || !apiequality.Semantic.DeepEqual(a.Status, b.Status)
}

// forRequest returns the workload of the pod of a request.
func (r *Reconciler) forRequest(ctx context.Context, o client.Object) []ctrl.Request {
	c, ok := o.(*appsv1beta1.ContainerRecreateRequest)
	if !ok {
		return nil
	}
	return r.forPod(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Spec.PodName})
}

// forPod returns the workload of a pod that the cache has and that has liveness probes for the node daemon.
func (r *Reconciler) forPod(ctx context.Context, key types.NamespacedName) []ctrl.Request {
	pod := &corev1.Pod{}
	if err := r.Client.Get(ctx, key, pod, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Could not determine the workload of a pod", "pod", key)
		}
		return nil
	}
	return requestsForPod(pod, r.kind)
}

// requestsForPod returns the workload of a pod, if it is of the kind and the pod has liveness probes for the node daemon.
func requestsForPod(pod *corev1.Pod, k kind) []ctrl.Request {
	ref := metav1.GetControllerOfNoCopy(pod)
	if !hasLiveness(pod) || !ownership.RefersTo(ref, k.gvk) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}}}
}

// resultHandler enqueues the workloads of pods whose results have changed.
func (r *Reconciler) resultHandler() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	add := func(ctx context.Context, q queue, before, after client.Object) {
		for _, key := range podprobe.Changed(before, after) {
			for _, req := range r.forPod(ctx, key) {
				q.Add(req)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e ctrlevent.CreateEvent, q queue) { add(ctx, q, nil, e.Object) },
		UpdateFunc: func(ctx context.Context, e ctrlevent.UpdateEvent, q queue) { add(ctx, q, e.ObjectOld, e.ObjectNew) },
	}
}
