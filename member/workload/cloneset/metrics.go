package cloneset

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the label step.
const (
	stepCreate        = "Create"
	stepPrepareUpdate = "PrepareUpdate"
	stepPrepareDelete = "PrepareDelete"
	stepReturn        = "Return"
	stepDelete        = "Delete"
	stepMark          = "Mark"
	stepEdit          = "Edit"
	stepRelease       = "Release"
)

// reasonCache is a reason to wait beside those of the engine: the cache has not shown our last writes.
const reasonCache = "Cache"

var (
	planSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "cloneset", Name: "plan_seconds",
		Help:    "How long the pure planning of one pass of a CloneSet took.",
		Buckets: metric.PlanBuckets(),
	})
	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "cloneset", Name: "steps_total",
		Help: "Steps planned for pods of CloneSets, by step and reason.",
	}, []string{metric.LabelStep, metric.LabelReason})
	waits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "cloneset", Name: "waits_total",
		Help: "Passes of CloneSets in which pods had to wait, by reason.",
	}, []string{metric.LabelReason})
)

// Register adds the metrics of this package, and of those that it works with, to r.
func Register(r prometheus.Registerer) error {
	if err := expect.Register(r); err != nil {
		return err
	}
	return metric.Register(r, planSeconds, steps, waits)
}

// count notes the steps and waits of a plan.
func count(w work) {
	for _, b := range w.create {
		steps.WithLabelValues(stepCreate, string(b.reason)).Inc()
	}
	for step, list := range map[string][]change{
		stepPrepareDelete: w.prepareDelete, stepPrepareUpdate: w.prepareUpdate, stepReturn: w.recall,
		stepDelete: w.delete, stepMark: w.mark, stepEdit: w.edit, stepRelease: w.release,
	} {
		for _, s := range list {
			steps.WithLabelValues(step, string(s.reason)).Inc()
		}
	}
	for _, h := range w.holds {
		waits.WithLabelValues(string(h.Reason)).Inc()
	}
}
