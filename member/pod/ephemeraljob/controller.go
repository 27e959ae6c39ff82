package ephemeraljob

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=ephemeraljobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=ephemeraljobs/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/ephemeralcontainers,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles EphemeralJobs.
type Reconciler struct {
	*podcontrol.Controller

	memory control.Memory[known]
	tally  control.Tally
}

// setUp adds the controller to mgr. The webhook is registered separately, because it may run without the controller.
func setUp(mgr ctrl.Manager, o podcontrol.Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	r := &Reconciler{Controller: podcontrol.NewController(mgr, kind, o)}
	changed := control.Updates(podChanged)
	err := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1alpha1.EphemeralJob{}).
		Watches(&corev1.Pod{}, r.Gather(handler.EnqueueRequestsFromMapFunc(r.forPod)), changed).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one EphemeralJob.
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
	r.Planned(measure, req, &podset.Plan{}, began, now)
	p.countSteps()
	a := r.apply(ctx, o, p)
	if p.release || p.remove || o.job.DeletionTimestamp != nil {
		return ctrl.Result{}, a.Err()
	}
	switch {
	case a.refused: // No watch event reports that the plan has changed.
		p.recheck = timing.Sooner(p.recheck, time.Millisecond)
	case a.skipped: // The update of the pod that caused the conflict might not enqueue this job.
		p.recheck = timing.Sooner(p.recheck, control.RetrySkipped)
	}
	s, events := status(o, p, a, now)
	return r.Report(ctx, measure, &a.Results, control.Outcome{
		Object: o.job, Was: o.job.Status, Is: s, MayWait: countsOnly(o.job.Status, s), Events: events, Recheck: p.recheck, Err: a.Err(),
	})
}

// count counts a job once, when its end is seen in its status.
func (r *Reconciler) count(job *appsv1alpha1.EphemeralJob) {
	r.tally.Count(job, finished(job), func() {
		reason := ""
		for i := range job.Status.Conditions {
			if c := &job.Status.Conditions[i]; c.Type == appsv1alpha1.EphemeralJobConditionSucceeded || c.Type == appsv1alpha1.EphemeralJobConditionFailed {
				reason = c.Reason
			}
		}
		finishedTotal.WithLabelValues(reason).Inc()
		if s := job.Status; s.StartTime != nil && s.CompletionTime != nil {
			runSeconds.WithLabelValues(reason).Observe(s.CompletionTime.Sub(s.StartTime.Time).Seconds())
		}
	})
}
