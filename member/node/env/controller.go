package env

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles the pods of one node.
type Reconciler struct {
	// Client reads from a cache of the node's pods, and writes; Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Runtimes are the node's container runtimes.
	Runtimes stop.Runtimes
	Clock    clock.Clock
	Stopper  *stop.Stopper

	memory memory
}

// Setup adds the controller to a manager whose cache holds the pods of one node.
func Setup(mgr ctrl.Manager, s *stop.Stopper) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of container env: %w", err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Runtimes: s.Runtimes, Clock: s.Clock, Stopper: s,
	}
	matters := func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && concerns(pod)
	}
	concerned := predicate.Funcs{
		CreateFunc: func(e ctrlevent.CreateEvent) bool { return matters(e.Object) },
		// The old object counts too, so that memory of a pod is dropped when it ceases to matter. Deletions are always reconciled.
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool { return matters(e.ObjectOld) || matters(e.ObjectNew) },
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("env").
		For(&corev1.Pod{}, builder.WithPredicates(concerned))
	if err := stop.Complete(b, r, s.Clock); err != nil {
		return fmt.Errorf("set up the controller of container env: %w", err)
	}
	return nil
}

// Reconcile takes the next step for one pod.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	requeueAfter, err := r.reconcile(ctx, req.NamespacedName)
	switch {
	case errors.Is(err, errGone):
		return ctrl.Result{}, nil
	case errors.Is(err, cri.ErrNoRuntime):
		// The keeper reports it once for the node.
		measure.Wait(reasonRuntime)
		return ctrl.Result{RequeueAfter: stop.RecheckInterval}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: requeueAfter}, nil
}

// reconcile observes, plans and applies, and returns when to reconcile again.
func (r *Reconciler) reconcile(ctx context.Context, key types.NamespacedName) (requeueAfter time.Duration, err error) {
	o, err := r.observe(ctx, key)
	if err != nil {
		return 0, err
	}
	now := r.Clock.Now()
	p := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	count(p)
	for _, h := range p.holds {
		ctrl.LoggerFrom(ctx).V(1).Info("Not restarting a container", "container", h.name, "reason", h.why)
	}
	if err := r.apply(ctx, o, p, now); err != nil {
		return 0, err
	}
	if len(p.restart) > 0 {
		// The new container shows in the pod's status. In case the kubelet starts none, check again.
		return stop.RecheckInterval, nil
	}
	return p.recheck, nil
}
