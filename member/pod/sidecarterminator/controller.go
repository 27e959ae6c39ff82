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

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/pod/jobsidecar"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Feature is the name in events, logs and metrics.
const Feature = "SidecarTerminator"

// eventEnded is the reason of the event on a pod whose sidecars are ended. Source: OpenKruise.
const eventEnded = "SidecarTerminator"

const (
	// condition is set on a pod that the controller has marked as ended. Source: OpenKruise.
	condition corev1.PodConditionType = "SidecarTerminated"

	action = "Terminate"
	// retryNode is how soon a pod whose node is not in the cache yet is reconciled again.
	retryNode = 10 * time.Second
)

// Reconciler ends sidecars.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	Clock  clock.PassiveClock
	Events event.Recorder
}

// setUp adds the controller to mgr. Workers is how many pods are reconciled at once; 0 means 3.
func setUp(mgr ctrl.Manager, workers int, c clock.PassiveClock) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", Feature, err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Clock: c, Events: event.New(mgr.GetEventRecorder(control.Name(Feature)))}
	err := control.NewBuilder(mgr, Feature, workers).
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(concerns))).
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
	state := jobsidecar.Of(pod)
	if !state.Done {
		return ctrl.Result{}, nil
	}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); {
	case apierrors.IsNotFound(err):
		measure.Wait(metric.ReasonCache)
		return ctrl.Result{RequeueAfter: retryNode}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get the node of pod %s: %w", req, err)
	}
	now := r.Clock.Now()
	p := plan(state, nodefit.Virtual(node))
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	if p.why == "" {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.apply(ctx, pod, p, now)
}
