package containerrecreaterequest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
)

// podIndex is the index of requests by the names of their pods.
const podIndex = "spec.podName"

// options tune the controller.
type options struct {
	// Workers is how many requests are reconciled at once; 0 means 3.
	Workers int
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler reconciles ContainerRecreateRequests. Each write carries the resourceVersion that was read, so it needs no memory of its writes.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	Events event.Recorder
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp adds the controller to mgr.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Events: event.New(mgr.GetEventRecorder(control.Name(kind))),
	}
	err := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1beta1.ContainerRecreateRequest{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.forPod)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one request.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := observe(ctx, r.Client, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if o.request == nil {
		return ctrl.Result{}, r.releasePods(ctx, req.NamespacedName)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	if p.step == stepComplete || p.step == stepRelease || p.step == stepRemove {
		// A cache that lacks the pod, or in which it is not ready, proves nothing.
		if o, err = observe(ctx, r.Live, req.NamespacedName); err != nil || o.request == nil {
			return ctrl.Result{}, err
		}
		before := p.step
		if p = plan(o, now); p.step != before {
			measure.Wait(metric.ReasonCache)
		}
	}
	if p.step != "" {
		measure.Count(p.step, p.reason, 1)
		ctrl.LoggerFrom(ctx).V(1).Info("Took a step", "step", p.step, "reason", p.why)
	}
	if err := r.apply(ctx, o, p, now); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.recheck}, nil
}

// releasePods makes pods ready again that were made unready for a request that no longer exists.
func (r *Reconciler) releasePods(ctx context.Context, key types.NamespacedName) error {
	pods, err := r.heldPods(ctx, key)
	if err != nil || len(pods) == 0 {
		return err
	}
	// The cache of requests may lag behind that of pods.
	if found, err := ownership.Get(ctx, r.Live, key, &appsv1beta1.ContainerRecreateRequest{}); err != nil || found {
		return err
	}
	for _, pod := range pods {
		measure.Count(stepReady, reasonUnwatched, 1)
		if err := r.setReadiness(ctx, pod, key.String(), false, "a ContainerRecreateRequest that is gone", r.Clock.Now()); ignorable(err) != nil {
			return err
		}
	}
	return nil
}

// index indexes requests by their pods.
func index(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "ContainerRecreateRequests by pod", &appsv1beta1.ContainerRecreateRequest{}, podIndex, func(o client.Object) []string {
		r, ok := o.(*appsv1beta1.ContainerRecreateRequest)
		if !ok {
			return nil
		}
		return []string{r.Spec.PodName}
	})
}

// forPod returns the requests for a pod, and those that keep it unready.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	var list appsv1beta1.ContainerRecreateRequestList
	err := r.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingFields{podIndex: o.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the ContainerRecreateRequests of a pod", "pod", client.ObjectKeyFromObject(o))
		return nil
	}
	out := holders(o)
	for i := range list.Items {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// holders returns the requests that keep a pod unready. It ignores keys of other namespaces.
func holders(o client.Object) []ctrl.Request {
	pod, found := o.(*corev1.Pod)
	if !found {
		return nil
	}
	var out []ctrl.Request
	for _, key := range lifecycle.Blocked(pod, recreate.Agent) {
		if namespace, name, ok := strings.Cut(key, "/"); ok && namespace == pod.Namespace {
			out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
		}
	}
	return out
}
