package podcontrol

import (
	"context"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// Count counts the steps and holds of a plan, and the time that it took.
func Count(m metric.Planning, p *podset.Plan, took time.Duration) {
	m.PlanSeconds.Observe(took.Seconds())
	for i := range p.Steps {
		m.Steps.WithLabelValues(string(p.Steps[i].Kind), string(p.Steps[i].Reason)).Inc()
	}
	CountHolds(m, p.Holds)
}

// CountHolds counts holds.
func CountHolds(m metric.Planning, holds []rollout.Hold) {
	for _, h := range holds {
		m.Waits.WithLabelValues(string(h.Reason)).Inc()
	}
}

// Log logs how many steps of each class were done, and at V(1) why others wait.
func (r *Results) Log(ctx context.Context, p *podset.Plan) {
	l := ctrl.LoggerFrom(ctx)
	for i := range classes {
		if n := len(r.Steps[classes[i].Class].Done); n > 0 {
			l.Info(classes[i].log, "count", n, "revision", p.Revision.Revision.Name)
		}
	}
	for _, h := range slices.Concat(p.Holds, r.Holds()) {
		l.V(1).Info("Held pods back", "reason", h.Reason, "count", h.Pods, "want", h.Why)
	}
	for i := range p.Pods {
		if pod := &p.Pods[i]; pod.WaitingFor != "" {
			l.V(1).Info("Waited for an in-place update", "pod", pod.Key, "reason", pod.WaitingFor)
			return
		}
	}
}
