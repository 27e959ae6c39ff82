package probedpod

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
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
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/podprobe"
)

// Options tune the controller.
type Options struct {
	// Workers is how many pods are reconciled at once; 0 means 3.
	Workers int
	// Serverless: agents of virtual nodes probe too.
	Serverless bool
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler writes results to pods.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Expect has the writes that the cache does not show yet.
	Expect *expect.Store
	Events event.Recorder
	// Serverless is as in Options.
	Serverless bool
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers;nodepodprobes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller to mgr.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", Feature, err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Expect: expect.New(Feature, o.Clock, o.ExpectationTimeout),
		Events: event.New(mgr.GetEventRecorder(podcontrol.ControllerName(Feature))), Serverless: o.Serverless,
	}
	changes := func(changed func(was, is client.Object) bool) builder.Predicates {
		return builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e ctrlevent.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) },
		})
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(Feature)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.forPod), changes(podChanged)).
		Watches(&appsv1alpha1.PodProbeMarker{}, handler.EnqueueRequestsFromMapFunc(r.forMarker), changes(markerChanged)).
		Watches(&appsv1alpha1.NodePodProbe{}, results()).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", Feature, err)
	}
	return nil
}

// Reconcile writes the last results of one pod to it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil || o.pod == nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	now := r.Clock.Now()
	p := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	return ctrl.Result{}, r.apply(ctx, o.pod, p)
}

// podChanged reports whether an update of a pod changes what it is to have, or what it has.
func podChanged(was, is client.Object) bool {
	a, isOne := was.(*corev1.Pod)
	b, isOther := is.(*corev1.Pod)
	return !isOne || !isOther || a.UID != b.UID || a.Spec.NodeName != b.Spec.NodeName || podpatch.Active(a) != podpatch.Active(b) ||
		!maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) ||
		!apiequality.Semantic.DeepEqual(a.Status.Conditions, b.Status.Conditions)
}

// markerChanged reports whether an update of a PodProbeMarker changes what it asks for.
func markerChanged(was, is client.Object) bool {
	return was.GetUID() != is.GetUID() || was.GetGeneration() != is.GetGeneration() ||
		(was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil)
}

// forPod returns a pod that a PodProbeMarker selects.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	pod, is := o.(*corev1.Pod)
	if !is || pod.Spec.NodeName == "" || !podpatch.Active(pod) {
		return nil
	}
	req := []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(pod)}}
	markers, err := podprobe.ListMarkers(ctx, r.Client, pod.Namespace)
	if err == nil && len(markers.Of(pod)) == 0 {
		return nil
	}
	return req // After an error the reconcile tries again.
}

// forMarker returns the pods that a PodProbeMarker selects.
func (r *Reconciler) forMarker(ctx context.Context, o client.Object) []ctrl.Request {
	m, is := o.(*appsv1alpha1.PodProbeMarker)
	if !is {
		return nil
	}
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the pods of a PodProbeMarker", "podProbeMarker", client.ObjectKeyFromObject(m))
		return nil
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	of := PodsOf(m, pods)
	out := make([]ctrl.Request, 0, len(of))
	for _, key := range of {
		out = append(out, ctrl.Request{NamespacedName: key})
	}
	return out
}

// PodsOf returns the pods that have results of a PodProbeMarker, or would have those of a younger one if it were gone.
func PodsOf(m *appsv1alpha1.PodProbeMarker, pods []*corev1.Pod) []types.NamespacedName {
	var out []types.NamespacedName
	for _, pod := range pods {
		if pod.Namespace == m.Namespace && pod.Spec.NodeName != "" && podpatch.Active(pod) && ownership.Selects(m.Spec.Selector, pod) {
			out = append(out, client.ObjectKeyFromObject(pod))
		}
	}
	return out
}

// results requests the pods whose results have changed.
func results() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	add := func(q queue, was, is client.Object) {
		for _, key := range podprobe.Changed(was, is) {
			q.Add(ctrl.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e ctrlevent.CreateEvent, q queue) { add(q, nil, e.Object) },
		UpdateFunc: func(_ context.Context, e ctrlevent.UpdateEvent, q queue) { add(q, e.ObjectOld, e.ObjectNew) },
	}
}
