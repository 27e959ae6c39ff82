package cloneset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/resize;pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options tune the controller.
type Options struct {
	podcontrol.Options
	// gates are the feature gates.
	Gates gates
}

// Reconciler reconciles CloneSets.
type Reconciler struct {
	*podcontrol.Controller
	// gates are the feature gates.
	Gates gates
	// Draw returns a random string for the name of a new pod; nil means rand.String of apimachinery.
	Draw func(length int) string
}

// Setup adds the controller to mgr. The webhook is registered separately, because it may run without the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of CloneSet: %w", err)
	}
	if err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	r := &Reconciler{Controller: podcontrol.NewController(mgr, Kind().Kind, o.Options), Gates: o.Gates}
	b := ctrl.NewControllerManagedBy(mgr)
	if err := r.Setup(ctx, mgr, b, Kind(), &appsv1beta1.CloneSet{}, o.Options); err != nil {
		return err
	}
	b.Owns(&corev1.PersistentVolumeClaim{})
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of CloneSet: %w", err)
	}
	return nil
}

// Reconcile takes the next step for one CloneSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, &p.Plan, began, now)
	a := r.apply(ctx, o, p, now)
	r.Waits(req.NamespacedName, &a.Results, now)
	s, events := status(o, p, a, now)
	set := o.set
	if a.set != nil {
		set = a.set // The status is patched at its resourceVersion.
	}
	return r.Report(ctx, measure, &a.Results, control.Outcome{
		Object: set, Was: set.Status, Is: s, MayWait: countsOnly(set, s), Events: events,
		Recheck: p.Recheck, Err: a.err(),
	})
}
