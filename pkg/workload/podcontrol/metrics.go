package podcontrol

import (
	"context"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Count counts the steps and holds of a plan.
func Count(m metric.Planning, p *podset.Plan) {
	for i := range p.Steps {
		m.Count(string(p.Steps[i].Kind), string(p.Steps[i].Reason), 1)
	}
	CountHolds(m, p.Holds)
}

// CountHolds counts holds.
func CountHolds(m metric.Planning, holds []rollout.Hold) {
	for _, h := range holds {
		m.Wait(string(h.Reason))
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
