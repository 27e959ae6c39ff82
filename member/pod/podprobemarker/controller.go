package podprobemarker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/gather"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podprobe"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-podprobemarker")

// Options tune the controller.
type Options struct {
	// Workers is how many PodProbeMarkers are reconciled at once; 0 means 3.
	Workers int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler reconciles PodProbeMarkers.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Clock is the clock.
	Clock clock.PassiveClock
	// Expect has the writes that the cache does not show yet.
	Expect *expect.Store
	// Events sends events.
	Events notes.Recorder

	pending  gather.Events
	throttle report.Throttle
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// Setup adds the controller to mgr.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Events: notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))),
	}
	changed := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return podChanged(e.ObjectOld, e.ObjectNew) }})
	err := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&appsv1alpha1.PodProbeMarker{}).
		Watches(&corev1.Pod{}, r.pending.Handler(handler.EnqueueRequestsFromMapFunc(r.forPod), o.Clock), changed).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one PodProbeMarker.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.pending.Forget(req.NamespacedName)
			r.throttle.Forget(req.NamespacedName)
		}
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	start := r.Clock.Now()
	p := plan(o, start)
	now := r.Clock.Now()
	measure.PlanSeconds.Observe(now.Sub(start).Seconds())
	r.pending.Took(req.NamespacedName, now.Sub(began), now)
	if p.release {
		measure.Steps.WithLabelValues(stepRelease, reasonDeleted).Inc()
		return ctrl.Result{}, r.release(ctx, o.marker)
	}
	mayWait := o.marker.Status.ObservedGeneration == p.status.ObservedGeneration
	write, later := r.throttle.Due(req.NamespacedName, !apiequality.Semantic.DeepEqual(o.marker.Status, p.status), mayWait, now)
	if !write {
		return ctrl.Result{RequeueAfter: later}, nil
	}
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	wrote, err := w.Write(ctx, o.marker, o.marker.Status, p.status, nil)
	if wrote {
		r.throttle.Wrote(req.NamespacedName, now)
	}
	return w.Result(o.marker, later, err)
}

// release removes the finalizer of OpenKruise. A conflict is no error: the event of the other write starts a reconcile.
func (r *Reconciler) release(ctx context.Context, m *appsv1alpha1.PodProbeMarker) error {
	next := m.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == keys.NodePodProbeCleanup })
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}), fieldOwner)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// podChanged reports whether an update of a pod matters.
func podChanged(was, is client.Object) bool {
	a, isOne := was.(*corev1.Pod)
	b, isOther := is.(*corev1.Pod)
	return !isOne || !isOther || podprobe.Due(a) != podprobe.Due(b) || !maps.Equal(a.Labels, b.Labels)
}

// forPod returns the PodProbeMarkers that select a pod.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1alpha1.PodProbeMarkerList{}, o.GetNamespace(), func(m *appsv1alpha1.PodProbeMarker) bool {
		return ownership.Selects(m.Spec.Selector, o)
	})
}
