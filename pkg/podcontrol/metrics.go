package podcontrol

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/podset"
)

// Values of the label step.
const (
	StepCreate        = "Create"
	StepPrepareUpdate = "PrepareUpdate"
	StepPrepareDelete = "PrepareDelete"
	StepReturn        = "Return"
	StepName          = "Name"
	StepDelete        = "Delete"
	StepMark          = "Mark"
	StepEdit          = "Edit"
	StepRelease       = "Release"
)

// Count notes how long a plan took, its steps and its waits.
func Count(m metric.Pass, w *podset.Plan, took time.Duration) {
	m.PlanSeconds.Observe(took.Seconds())
	for _, c := range w.Create {
		m.Steps.WithLabelValues(StepCreate, string(c.Reason)).Inc()
	}
	for step, list := range map[string][]podset.Change{
		StepPrepareDelete: w.PrepareDelete, StepPrepareUpdate: w.PrepareUpdate, StepReturn: w.Return,
		StepName: w.Name, StepDelete: w.Delete, StepMark: w.Mark, StepEdit: w.Edit, StepRelease: w.Release,
	} {
		for _, s := range list {
			m.Steps.WithLabelValues(step, string(s.Reason)).Inc()
		}
	}
	for _, h := range w.Holds {
		m.Waits.WithLabelValues(string(h.Reason)).Inc()
	}
}

// Log says what was done in one line, and why pods waited in one more.
func (d *Results) Log(ctx context.Context, w *podset.Plan) {
	l := ctrl.LoggerFrom(ctx)
	for _, c := range []struct {
		message string
		result  Result
	}{
		{"Deleted pods", d.Deleted},
		{"Deleted pods to make them anew", d.Recreated},
		{"Named pods for deletion", d.Named},
		{"Asked for pods to be let go for deletion", d.Parted},
		{"Kept pods that were asked for", d.Recalled},
		{"Asked for pods to be let go for an update", d.Prepared},
		{"Took pods out of service for an update", d.Marked},
		{"Updated pods in place", d.Edited},
		{"Put pods into service", d.Released},
		{"Created pods", d.Created},
	} {
		if n := len(c.result.Done); n > 0 {
			l.Info(c.message, "count", n, "revision", w.Revision.Revision.Name)
		}
	}
	for _, h := range w.Holds {
		l.V(1).Info("Held pods back", "reason", h.Reason, "count", h.Pods, "want", h.Why)
	}
	for i := range w.Pods {
		if m := &w.Pods[i]; m.WaitingFor != "" {
			l.V(1).Info("Waited for an update in place", "pod", m.Key, "reason", m.WaitingFor)
			return
		}
	}
}
