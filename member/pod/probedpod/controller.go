package probedpod

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// Options tune the controller.
type Options struct {
	control.Options

	// Serverless: agents of virtual nodes probe too.
	Serverless bool
}

// Reconciler writes results to pods.
type Reconciler struct {
	*control.Controller

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
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", Feature, err)
	}
	r := &Reconciler{Controller: control.New(mgr, Feature, fieldOwner, o.Options), Serverless: o.Serverless}
	err := control.NewBuilder(mgr, Feature, o.Workers).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.forPod), control.Updates(podChanged)).
		Watches(&appsv1alpha1.PodProbeMarker{}, handler.EnqueueRequestsFromMapFunc(r.forMarker), control.Updates(markerChanged)).
		Watches(&appsv1alpha1.NodePodProbe{}, resultHandler()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", Feature, err)
	}
	return nil
}

// Reconcile writes the last results of one pod to it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil || o.pod == nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, began, now)
	return ctrl.Result{}, r.apply(ctx, o.pod, p)
}

// podChanged reports whether an update of a pod changes its desired or its current conditions and metadata.
func podChanged(before, after client.Object) bool {
	a, isOne := before.(*corev1.Pod)
	b, isOther := after.(*corev1.Pod)
	return !isOne || !isOther || a.UID != b.UID || a.Spec.NodeName != b.Spec.NodeName || podpatch.Active(a) != podpatch.Active(b) ||
		!maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) ||
		!apiequality.Semantic.DeepEqual(a.Status.Conditions, b.Status.Conditions)
}

// markerChanged reports whether an update of a PodProbeMarker changes what it asks for.
func markerChanged(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

// forPod returns the pod itself if a PodProbeMarker selects it.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || !podpatch.Active(pod) {
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
	m, ok := o.(*appsv1alpha1.PodProbeMarker)
	if !ok {
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
	keys := PodsOf(m, pods)
	out := make([]ctrl.Request, 0, len(keys))
	for _, key := range keys {
		out = append(out, ctrl.Request{NamespacedName: key})
	}
	return out
}

// PodsOf returns the active pods on nodes that a PodProbeMarker selects: those with its results, and those that get the results of a younger one when
// it is gone.
func PodsOf(m *appsv1alpha1.PodProbeMarker, pods []*corev1.Pod) []types.NamespacedName {
	var out []types.NamespacedName
	for _, pod := range pods {
		if pod.Namespace == m.Namespace && pod.Spec.NodeName != "" && podpatch.Active(pod) && ownership.Selects(m.Spec.Selector, pod) {
			out = append(out, client.ObjectKeyFromObject(pod))
		}
	}
	return out
}

// resultHandler enqueues the pods whose results have changed.
func resultHandler() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	add := func(q queue, before, after client.Object) {
		for _, key := range podprobe.Changed(before, after) {
			q.Add(ctrl.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e ctrlevent.CreateEvent, q queue) { add(q, nil, e.Object) },
		UpdateFunc: func(_ context.Context, e ctrlevent.UpdateEvent, q queue) { add(q, e.ObjectOld, e.ObjectNew) },
	}
}
