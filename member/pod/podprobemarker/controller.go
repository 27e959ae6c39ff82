package podprobemarker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-podprobemarker")

// Reconciler reconciles PodProbeMarkers.
type Reconciler struct {
	*control.Controller
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// Setup adds the controller to mgr.
func Setup(mgr ctrl.Manager, o control.Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	r := &Reconciler{control.New(mgr, kind, fieldOwner, o)}
	changed := control.Updates(podChanged)
	err := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1alpha1.PodProbeMarker{}).
		Watches(&corev1.Pod{}, r.Gather(handler.EnqueueRequestsFromMapFunc(r.forPod)), changed).
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
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, began, now)
	if p.release {
		measure.Count(stepRelease, reasonDeleted, 1)
		return ctrl.Result{}, r.release(ctx, o.marker)
	}
	before := o.marker.Status
	return r.Report(ctx, control.Outcome{
		Object: o.marker, Was: before, Is: p.status, MayWait: before.ObservedGeneration == p.status.ObservedGeneration,
	})
}

// release removes OpenKruise's finalizer. A conflict is not an error: the event of the other write starts a reconcile.
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
func podChanged(before, after client.Object) bool {
	a, isOne := before.(*corev1.Pod)
	b, isOther := after.(*corev1.Pod)
	return !isOne || !isOther || podprobe.Due(a) != podprobe.Due(b) || !maps.Equal(a.Labels, b.Labels)
}

// forPod returns the PodProbeMarkers that select a pod.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1alpha1.PodProbeMarkerList{}, o.GetNamespace(), func(m *appsv1alpha1.PodProbeMarker) bool {
		return ownership.Selects(m.Spec.Selector, o)
	})
}
