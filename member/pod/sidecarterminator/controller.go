package sidecarterminator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/jobsidecar"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/nodefit"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Feature is the name in events, logs and metrics.
const Feature = "SidecarTerminator"

// EventEnded is the reason of the event on a pod whose sidecars are ended. Source: OpenKruise.
const EventEnded = "SidecarTerminator"

const (
	// condition is set on a pod that is said to have ended. Source: OpenKruise.
	condition corev1.PodConditionType = "SidecarTerminated"

	action = "Terminate"
	// retryNode is how soon a pod is looked at again whose node is not in the cache yet.
	retryNode = 10 * time.Second
)

// Reconciler ends sidecars.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	Clock  clock.PassiveClock
	Events event.Recorder
}

// Setup adds the controller to mgr. Workers is how many pods are reconciled at once; 0 means 3.
func Setup(mgr ctrl.Manager, workers int, c clock.PassiveClock) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", Feature, err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Clock: c, Events: event.New(mgr.GetEventRecorder(podcontrol.ControllerName(Feature)))}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(Feature)).
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(concerns))).
		WithOptions(podcontrol.Queue(workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", Feature, err)
	}
	return nil
}

func concerns(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && jobsidecar.Concerns(pod) && jobsidecar.Of(pod).Done
}

// Reconcile takes the next step for one pod.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod, node := &corev1.Pod{}, &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, pod); err != nil || !jobsidecar.Concerns(pod) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	of := jobsidecar.Of(pod)
	if !of.Done {
		return ctrl.Result{}, nil
	}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); {
	case apierrors.IsNotFound(err):
		measure.Waits.WithLabelValues(metric.ReasonCache).Inc()
		return ctrl.Result{RequeueAfter: retryNode}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get the node of pod %s: %w", req, err)
	}
	start := r.Clock.Now()
	p := plan(of, nodefit.Virtual(node))
	measure.PlanSeconds.Observe(r.Clock.Since(start).Seconds())
	if p.why == "" {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.apply(ctx, pod, p)
}
