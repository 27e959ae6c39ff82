// Package terminator stops sidecars of Jobs on one node: the containers that pkg/pod/jobsidecar finds, once all others of their pod have ended.
//
// It writes nothing to the pod; the kubelet reports that the container has ended, and the pod with it. A container whose exit code is to be ignored
// is left to the manager, which sets the pod's phase to an ended one; the kubelet then stops what is left. A container that the kubelet starts again,
// because it failed and the pod's policy is OnFailure, is stopped again, at the pace of the kubelet's back-off.
package terminator

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/pod/jobsidecar"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles the pods of one node.
type Reconciler struct {
	// Client reads from a cache of the node's pods.
	Client  client.Reader
	Stopper *stop.Stopper
}

// Setup adds the controller to a manager whose cache holds the pods of one node.
func Setup(mgr ctrl.Manager, s *stop.Stopper) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of the sidecar terminator: %w", err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Stopper: s}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("sidecarterminator").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			pod, ok := o.(*corev1.Pod)
			return ok && jobsidecar.Concerns(pod) && len(plan(pod)) > 0
		})))
	if err := stop.Complete(b, r, s.Clock); err != nil {
		return fmt.Errorf("set up the sidecar terminator: %w", err)
	}
	return nil
}

// Reconcile stops the sidecars of one pod. A stale cache does no harm: what has ended stays ended, and containers are stopped by their ID.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Client.Get(ctx, req.NamespacedName, pod); err != nil || !jobsidecar.Concerns(pod) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	start := r.Stopper.Clock.Now()
	todo := plan(pod)
	measure.PlanSeconds.Observe(r.Stopper.Clock.Since(start).Seconds())
	var group errgroup.Group
	for _, c := range todo {
		group.Go(func() error {
			began, err := r.Stopper.Stop(ctx, pod, c)
			if began {
				measure.Count(stepStop, reasonDone, 1)
			}
			return err
		})
	}
	err := group.Wait()
	if errors.Is(err, cri.ErrNoRuntime) {
		// The keeper reports it once for the node.
		measure.Wait(reasonRuntime)
		return ctrl.Result{RequeueAfter: stop.RecheckInterval}, nil
	}
	return ctrl.Result{}, err
}

// plan returns the containers of a pod to stop.
func plan(pod *corev1.Pod) []stop.Container {
	p := jobsidecar.Of(pod)
	if !p.Done {
		return nil
	}
	var out []stop.Container
	for _, s := range p.Sidecars {
		if s.Stopped && !s.Ignored && s.Status != nil && s.Status.State.Running != nil {
			out = append(out, stop.Of(pod, s.Container, s.Status.ContainerID, "all other containers of the pod have ended"))
		}
	}
	return out
}
