package env

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-io/flotilla/pkg/cri"
	"github.com/flotilla-io/flotilla/pkg/event"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// A failed reconcile is tried again after firstRetry, then after twice that, up to lastRetry: a pod may be out of service for it.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// lookAgain is when a pod is looked at again that found no runtime.
const lookAgain = 10 * time.Second

// workers is how many pods are worked on at once. A pass may last as long as a grace period, and none costs anything
// meanwhile, so it is about as many as a node has.
const workers = 100

// Runtimes finds the runtime of a container by the ID that the kubelet reports.
type Runtimes interface {
	Of(containerID string) (*cri.Runtime, string, error)
}

// Options are what Setup needs. All of them are required.
type Options struct {
	Runtimes Runtimes
	Clock    clock.Clock
	Events   event.Recorder
}

// Reconciler works for the pods of one node.
type Reconciler struct {
	// Client reads from a cache of the node's pods, and writes; Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Runtimes are those of the node.
	Runtimes Runtimes
	Clock    clock.Clock
	Events   event.Recorder
	// HTTP sends the requests of preStop hooks.
	HTTP *http.Client

	memory memory
}

// Setup adds the loop to a manager whose cache holds the pods of one node.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of container env: %w", err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Runtimes: o.Runtimes, Clock: o.Clock, Events: o.Events, HTTP: hookClient(),
	}
	is := func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && concerns(pod)
	}
	concerned := predicate.Funcs{
		CreateFunc: func(e ctrlevent.CreateEvent) bool { return is(e.Object) },
		// What is kept of a pod is dropped when it is none to look at any more. A deletion always passes.
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool { return is(e.ObjectOld) || is(e.ObjectNew) },
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("env").
		For(&corev1.Pod{}, builder.WithPredicates(concerned)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the loop for container env: %w", err)
	}
	return nil
}

// Reconcile does the next step for one pod.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	again, err := r.pass(ctx, req.NamespacedName)
	switch {
	case errors.Is(err, errGone):
		return ctrl.Result{}, nil
	case errors.Is(err, cri.ErrNoRuntime):
		// It is told once for the node, and not for each pod.
		measure.Waits.WithLabelValues(reasonRuntime).Inc()
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// pass observes, plans and applies, and returns when to look again.
func (r *Reconciler) pass(ctx context.Context, key types.NamespacedName) (again time.Duration, err error) {
	o, err := r.observe(ctx, key)
	if err != nil {
		return 0, err
	}
	now := r.Clock.Now()
	w := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	count(w)
	for _, h := range w.holds {
		ctrl.LoggerFrom(ctx).V(1).Info("Left a container running", "container", h.name, "reason", h.why)
	}
	if err := r.apply(ctx, o, w); err != nil {
		return 0, err
	}
	if len(w.restart) > 0 {
		// The kubelet tells of the new container. Should it start none, this looks again.
		return lookAgain, nil
	}
	return w.recheck, nil
}
