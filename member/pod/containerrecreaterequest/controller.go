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
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/recreate"
)

// podIndex is the index of requests by the names of their pods.
const podIndex = "spec.podName"

// Options tune the controller.
type Options struct {
	// Workers is how many requests are reconciled at once; 0 means 3.
	Workers int
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler reconciles ContainerRecreateRequests. Each write names the version that was read, so it needs no memory of its writes.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Clock is the clock.
	Clock clock.PassiveClock
	// Events sends events.
	Events event.Recorder
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Events: event.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))),
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&appsv1beta1.ContainerRecreateRequest{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.forPod)).
		WithOptions(podcontrol.Queue(o.Workers)).
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
		return ctrl.Result{}, r.forget(ctx, req.NamespacedName)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	if p.step == stepComplete || p.step == stepRelease || p.step == stepRemove {
		// A cache that lacks the pod, or that the pod is not ready, proves nothing.
		if o, err = observe(ctx, r.Live, req.NamespacedName); err != nil || o.request == nil {
			return ctrl.Result{}, err
		}
		was := p.step
		if p = plan(o, now); p.step != was {
			measure.Waits.WithLabelValues(metric.ReasonCache).Inc()
		}
	}
	if p.step != "" {
		measure.Steps.WithLabelValues(p.step, p.reason).Inc()
		ctrl.LoggerFrom(ctx).V(1).Info("Took a step", "step", p.step, "reason", p.why)
	}
	if err := r.apply(ctx, o, p, now); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.recheck}, nil
}

// forget lets pods be ready that a request kept not ready which does not exist any more.
func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName) error {
	pods, err := r.held(ctx, key)
	if err != nil || len(pods) == 0 {
		return err
	}
	// The cache of requests may lag behind that of pods.
	if found, err := ownership.Get(ctx, r.Live, key, &appsv1beta1.ContainerRecreateRequest{}); err != nil || found {
		return err
	}
	for _, pod := range pods {
		measure.Steps.WithLabelValues(stepReady, reasonUnwatched).Inc()
		if err := r.mark(ctx, pod, key.String(), false, "a ContainerRecreateRequest that is gone", r.Clock.Now()); ignorable(err) != nil {
			return err
		}
	}
	return nil
}

// index indexes requests by their pods.
func index(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "ContainerRecreateRequests by pod", &appsv1beta1.ContainerRecreateRequest{}, podIndex, func(o client.Object) []string {
		r, is := o.(*appsv1beta1.ContainerRecreateRequest)
		if !is {
			return nil
		}
		return []string{r.Spec.PodName}
	})
}

// forPod returns the requests of a pod, and those that keep it not ready.
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

// holders returns the requests that keep a pod not ready. A key of another namespace is nobody's.
func holders(o client.Object) []ctrl.Request {
	pod, is := o.(*corev1.Pod)
	if !is {
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
