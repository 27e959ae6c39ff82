package broadcastjob

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles BroadcastJobs.
type Reconciler struct {
	*podcontrol.Controller

	memory control.Memory[known]
	tally  control.Tally
}

// setUp adds the controller to mgr. The webhook is registered separately, because it may run without the controller.
func setUp(ctx context.Context, mgr ctrl.Manager, o podcontrol.Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	r := &Reconciler{Controller: podcontrol.NewController(mgr, kind, o)}
	b := ctrl.NewControllerManagedBy(mgr)
	if err := r.Setup(ctx, mgr, b, Kind(), &appsv1beta1.BroadcastJob{}, o); err != nil {
		return err
	}
	b.Watches(&corev1.Node{}, r.Gather(onNodes(r.Client)))
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one BroadcastJob.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.memory.Forget(req.NamespacedName)
			r.tally.Forget(req.NamespacedName)
		}
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	r.count(o.job)
	now := r.Clock.Now()
	p := plan(o, now)
	reread, err := r.confirm(ctx, &o, p)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	if reread {
		now = r.Clock.Now()
		p = plan(o, now)
	}
	r.Planned(measure, req, &p.Plan, began, now)
	var crowded bool
	r.memory.Change(o.job, func(k *known) { crowded = k.record(p.succeeded, p.crowded) })
	a := r.apply(ctx, o, p)
	if a.changed || a.gone {
		return ctrl.Result{}, a.Err()
	}
	s, events := status(o, p, a, crowded, now)
	return r.Report(ctx, measure, &a.Results, control.Outcome{
		Object: a.job, Was: o.job.Status, Is: s, MayWait: countsOnly(o.job.Status, s), Events: events, Recheck: p.Recheck, Err: a.Err(),
	})
}

// count counts a job once, when its end is seen in its status.
func (r *Reconciler) count(job *appsv1beta1.BroadcastJob) {
	r.tally.Count(job, finished(job), func() {
		reason := ""
		for _, c := range report.ButReadiness(job.Status.Conditions, conditionForm()) { // A finished job has one.
			reason = c.Reason
		}
		finishedTotal.WithLabelValues(reason).Inc()
		if s := job.Status; s.StartTime != nil && s.CompletionTime != nil {
			runSeconds.WithLabelValues(reason).Observe(s.CompletionTime.Sub(s.StartTime.Time).Seconds())
		}
	})
}
