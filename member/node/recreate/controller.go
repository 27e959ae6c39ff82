package recreate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/node/other"
	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// A policy of the chart limits writes to requests for pods of the daemon's own node.
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reasons of events on requests.
const (
	// reasonStopping: a container is stopped.
	reasonStopping = "StoppingContainer"
	// reasonCompleted: each container has succeeded or failed.
	reasonCompleted = "Completed"
	// reasonFailed: a container could not be restarted, and the request is complete.
	reasonFailed = "RecreateFailed"

	action = "RecreateContainers"
)

// fieldOwner is the name under which the daemon writes.
const fieldOwner = client.FieldOwner("flotilla-noded")

// Reconciler carries out the requests for pods of one node.
type Reconciler struct {
	// Client reads from a cache of the node's pods and of its requests that are not complete, and writes. Live reads from the apiserver.
	Client  client.Client
	Live    client.Reader
	Node    string
	Stopper *stop.Stopper
}

// Setup adds the controller to a manager whose cache holds the pods of one node, and its requests that are not complete.
func Setup(mgr ctrl.Manager, node string, s *stop.Stopper) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of container recreation: %w", err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Node: node, Stopper: s}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("recreate").
		For(&corev1.Pod{}).
		Watches(&appsv1beta1.ContainerRecreateRequest{}, handler.EnqueueRequestsFromMapFunc(podOf))
	if err := stop.Complete(b, r, s.Clock); err != nil {
		return fmt.Errorf("set up the controller of container recreation: %w", err)
	}
	return nil
}

// podOf returns the pod of a request.
func podOf(_ context.Context, o client.Object) []ctrl.Request {
	r, ok := o.(*request)
	if !ok {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.PodName}}}
}

// Reconcile takes the next step for one pod.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var list appsv1beta1.ContainerRecreateRequestList
	if err := r.Client.List(ctx, &list, client.InNamespace(req.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list ContainerRecreateRequests: %w", err)
	}
	var all []*request
	for i := range list.Items {
		if item := &list.Items[i]; item.Spec.PodName == req.Name && item.Labels[keys.RecreateNode] == r.Node {
			all = append(all, item)
		}
	}
	if len(all) == 0 {
		return ctrl.Result{}, nil
	}
	pod, err := r.pod(ctx, r.Client, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Stopper.Clock.Now()
	p := plan(pod, all, now)
	measure.PlanSeconds.Observe(r.Stopper.Clock.Since(now).Seconds())
	if p.waits != "" {
		measure.Wait(p.waits)
	}
	if p.step != "" {
		// Another node daemon carries out requests too.
		switch pod, err := other.Runs(ctx, r.Client); {
		case err != nil:
			return ctrl.Result{}, err
		case pod != "":
			measure.Wait(reasonDaemon)
			return ctrl.Result{RequeueAfter: stop.RecheckInterval}, nil
		}
	}
	switch {
	case p.step == "":
	case p.stop != nil:
		return r.stop(ctx, pod, p)
	default:
		measure.Count(p.step, p.reason, 1)
		if err := r.write(ctx, p.request, p.status); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: p.recheck}, nil
}

// pod returns a pod of the node, nil if there is none of that name.
func (r *Reconciler) pod(ctx context.Context, from client.Reader, key types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	switch err := from.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err) || err == nil && pod.Spec.NodeName != r.Node:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get pod %s: %w", key, err)
	}
	return pod, nil
}

// stop stops a container if the apiserver confirms that it has to be stopped: by now the request may be complete or gone.
func (r *Reconciler) stop(ctx context.Context, pod *corev1.Pod, p planned) (ctrl.Result, error) {
	live := &request{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(p.request), live); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pod, err := r.pod(ctx, r.Live, client.ObjectKeyFromObject(pod))
	if err != nil {
		return ctrl.Result{}, err
	}
	again := plan(pod, []*request{live}, r.Stopper.Clock.Now())
	if live.UID != p.request.UID || live.Labels[keys.RecreateNode] != r.Node || again.stop == nil || again.stop.ID != p.stop.ID {
		return ctrl.Result{RequeueAfter: stop.RecheckInterval}, nil // The cache will show it.
	}
	began, err := r.Stopper.Stop(ctx, pod, *again.stop)
	if began {
		measure.Count(p.step, p.reason, 1)
		r.Stopper.Events.Record(live, event.Normal(reasonStopping, action, "stopping container %s of pod %s (previous restarts: %d): %s",
			again.stop.Name, pod.Name, inplace.Status(pod, again.stop.Name).RestartCount, again.stop.Why))
	}
	switch {
	case err == nil:
		// The new container shows in the pod's status. In case the kubelet starts none, look again.
		return ctrl.Result{RequeueAfter: stop.RecheckInterval}, nil
	case errors.Is(err, cri.ErrNoRuntime):
		// The keeper reports it once for the node.
		measure.Wait(reasonRuntime)
		return ctrl.Result{RequeueAfter: stop.RecheckInterval}, nil
	case ctx.Err() != nil || !r.stillRuns(ctx, pod, *again.stop):
		return ctrl.Result{}, err // The daemon is stopping, the runtime does not answer, or the container has ended after all.
	}
	s := *live.Status.DeepCopy()
	for i := range s.ContainerRecreateStates {
		if state := &s.ContainerRecreateStates[i]; state.Name == again.stop.Name {
			state.Phase, state.IsKilled, state.Message = appsv1beta1.RecreateFailed, false, fmt.Sprintf("the container could not be stopped: %v", err)
		}
	}
	return ctrl.Result{}, r.write(ctx, live, s)
}

// stillRuns reports whether the runtime answers that a container runs.
func (r *Reconciler) stillRuns(ctx context.Context, pod *corev1.Pod, c stop.Container) bool {
	runtime, id, err := r.Stopper.Runtimes.Of(c.ID)
	if err != nil {
		return false
	}
	found, err := runtime.Container(ctx, id, nil)
	return err == nil && found.Running && found.PodUID == pod.UID
}

// write writes the status at the resourceVersion that was read, because the manager writes it as well. After a conflict the event of the other write
// starts the next reconcile.
func (r *Reconciler) write(ctx context.Context, old *request, s appsv1beta1.ContainerRecreateRequestStatus) error {
	next := old.DeepCopy()
	next.Status = s
	recreate.Observe(next, r.Stopper.Clock.Now())
	err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), fieldOwner)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("report on ContainerRecreateRequest %s: %w", client.ObjectKeyFromObject(old), err)
	case !recreate.Done(next):
	case s.Message != "":
		r.Stopper.Events.Record(old, event.Warning(reasonFailed, action, "%s", s.Message))
	default:
		r.Stopper.Events.Record(old, event.Normal(reasonCompleted, action, "the containers of pod %s were restarted", old.Spec.PodName))
	}
	return nil
}
