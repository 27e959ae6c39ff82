package advancedcronjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// options tune the controller.
type options struct {
	control.Options

	// Local is the time zone of schedules that name none; nil means time.Local.
	Local *time.Location
}

// Reconciler reconciles AdvancedCronJobs.
type Reconciler struct {
	*control.Controller

	// Local is as in Options.
	Local *time.Location

	memory control.Memory[run]
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs;imagelistpulljobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp adds the controller to mgr.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	children := []client.Object{&batchv1.Job{}, &appsv1beta1.BroadcastJob{}, &appsv1beta1.ImageListPullJob{}}
	if err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), children...); err != nil {
		return err
	}
	if o.Local == nil {
		o.Local = time.Local //nolint:gosmopolitan // It is the documented default, as in Kubernetes.
	}
	r := &Reconciler{Controller: control.New(mgr, kind, fieldOwner, o.Options), Local: o.Local}
	b := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1beta1.AdvancedCronJob{})
	for _, child := range children {
		b = b.Owns(child)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one AdvancedCronJob. The garbage collector deletes the jobs of a deleted one.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.memory.Forget(req.NamespacedName)
		}
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, began, now)
	if p.direct {
		if err := r.confirm(ctx, o); err != nil {
			return r.NotPlanned(ctx, measure, req, began, err)
		}
	}
	count(p)
	a := r.apply(ctx, o, p, now)
	s, events := status(o, p, a, now)
	outcome := control.Outcome{Object: o.cron, Was: o.cron.Status, Is: s, Events: events, Err: a.err}
	wrote, later, err := r.Write(ctx, outcome)
	if wrote {
		countWritten(p, &o.cron.Status, &s)
		switch {
		case !p.start.IsZero():
			r.memory.Change(o.cron, func(k *run) { *k = run{p.start.Unix(), notCreated} })
		case s.Pending == nil:
			r.memory.Forget(req.NamespacedName)
		}
	}
	outcome.Recheck = timing.Sooner(p.recheck, later)
	if a.kept {
		outcome.Recheck = timing.Sooner(outcome.Recheck, lookAgain)
	}
	return r.Result(outcome, err)
}
