package uniteddeployment

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the label step.
const (
	stepCreate    = "Create"
	stepUpdate    = "Update"
	stepDelete    = "Delete"
	stepDeletePod = "DeletePod"
)

// reasonCache is a reason to wait: the cache has not shown our last writes.
const reasonCache = "Cache"

var (
	planSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "uniteddeployment", Name: "plan_seconds",
		Help:    "How long the pure planning of one pass of a UnitedDeployment took.",
		Buckets: metric.PlanBuckets(),
	})
	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "uniteddeployment", Name: "steps_total",
		Help: "Steps planned for workloads of UnitedDeployments, by step and reason.",
	}, []string{metric.LabelStep, metric.LabelReason})
	waits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "uniteddeployment", Name: "waits_total",
		Help: "Passes of UnitedDeployments in which a subset had to wait, by reason.",
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
	for i := range w.subsets {
		switch t := &w.subsets[i]; {
		case t.create != nil:
			steps.WithLabelValues(stepCreate, t.reason).Inc()
		case t.update != nil:
			steps.WithLabelValues(stepUpdate, t.reason).Inc()
		case t.reason != "":
			waits.WithLabelValues(t.reason).Inc()
		}
	}
	for _, c := range w.remove {
		steps.WithLabelValues(stepDelete, c.reason).Inc()
	}
	steps.WithLabelValues(stepDeletePod, reasonStuck).Add(float64(len(w.stuck)))
}
