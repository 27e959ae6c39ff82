package imagelistpulljob

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// Reconciler reconciles ImageListPullJobs.
type Reconciler struct {
	*control.Controller
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagelistpulljobs,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagelistpulljobs/status,verbs=update;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagelistpulljobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp adds the controller to mgr.
func setUp(ctx context.Context, mgr ctrl.Manager, o control.Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &appsv1beta1.ImagePullJob{}); err != nil {
		return err
	}
	r := &Reconciler{control.New(mgr, kind, fieldOwner, o)}
	err := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1beta1.ImageListPullJob{}).
		Owns(&appsv1beta1.ImagePullJob{}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one ImageListPullJob. The garbage collector deletes the jobs of a deleted one.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, began, now)
	count(p)
	if p.remove {
		return ctrl.Result{}, control.RemoveJob(ctx, r.Client, o.list)
	}
	a := r.apply(ctx, o, p)
	return r.Report(ctx, control.Outcome{
		Object: o.list, Was: o.list.Status, Is: status(o, p, a, now), Events: a.events, Recheck: p.recheck, Err: a.err,
	})
}
