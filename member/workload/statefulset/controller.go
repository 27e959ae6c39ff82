package statefulset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/resize;pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options tune the controller.
type Options struct {
	podcontrol.Options
	// Gates are the feature gates.
	Gates Gates
}

// Reconciler reconciles StatefulSets. The function adopts decides which orphans a set adopts.
type Reconciler struct {
	*podcontrol.Controller
	// Gates are the feature gates.
	Gates Gates
}

// Setup adds the controller to mgr. The webhook is registered separately, because it may run without the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of StatefulSet: %w", err)
	}
	r := &Reconciler{Controller: podcontrol.NewController(mgr, Kind().Kind, o.Options), Gates: o.Gates}
	r.Overlaps.Adopts = adopts
	b := ctrl.NewControllerManagedBy(mgr)
	if err := r.Setup(ctx, mgr, b, Kind(), &appsv1beta1.StatefulSet{}, o.Options); err != nil {
		return err
	}
	b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.requestsForOrphan)).
		Watches(&corev1.PersistentVolumeClaim{}, r.Gather(handler.EnqueueRequestsFromMapFunc(r.requestsForPVC)))
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of StatefulSet: %w", err)
	}
	return nil
}

// Reconcile takes the next step for one StatefulSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	if len(o.orphanedRevisions) > 0 {
		return r.applier(o).Adopt(ctx, r.Events, o.set, Kind(), "revisions", podcontrol.Objects(o.orphanedRevisions))
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, &p.Plan, began, now)
	a := r.apply(ctx, o, p, now)
	r.Waits(req.NamespacedName, &a.Results, now)
	s, events := status(o, p, a, now)
	return r.Report(ctx, measure, &a.Results, control.Outcome{
		Object: o.set, Was: o.set.Status, Is: s, MayWait: countsOnly(o.set, s), Events: events,
		Recheck: p.Recheck, Err: a.err(),
	})
}
