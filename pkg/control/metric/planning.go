package metric

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// ReasonCache is a reason to wait that every controller has: its cache doesn't show its own last writes.
const ReasonCache = "Cache"

// Planning holds the metrics that every controller has about its plans.
type Planning struct {
	// PlanSeconds is the duration of planning.
	PlanSeconds prometheus.Histogram
	// Steps counts planned steps by step and reason.
	Steps *prometheus.CounterVec
	// Waits counts reconciles in which something had to wait, by reason.
	Waits *prometheus.CounterVec
}

// NewPlanning returns the metrics for a package that plans for objects of a kind, as in NewPlanning("cloneset", "CloneSet").
func NewPlanning(subsystem, kind string) Planning {
	return Planning{
		PlanSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: Namespace, Subsystem: subsystem, Name: "plan_seconds",
			Help:    fmt.Sprintf("How long the pure planning of one reconcile of a %s took.", kind),
			Buckets: PlanBuckets(),
		}),
		Steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: Namespace, Subsystem: subsystem, Name: "steps_total",
			Help: fmt.Sprintf("Steps planned for what a %s owns, by step and reason.", kind),
		}, []string{LabelStep, LabelReason}),
		Waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: Namespace, Subsystem: subsystem, Name: "waits_total",
			Help: fmt.Sprintf("Reconciles of a %s in which something had to wait, by reason.", kind),
		}, []string{LabelReason}),
	}
}

// Register adds the metrics to r.
func (p Planning) Register(r prometheus.Registerer) error {
	return Register(r, p.PlanSeconds, p.Steps, p.Waits)
}

// Count counts n steps.
func (p Planning) Count(step, reason string, n int) {
	p.Steps.WithLabelValues(step, reason).Add(float64(n))
}

// Wait counts a reconcile in which something had to wait.
func (p Planning) Wait(reason string) { p.Waits.WithLabelValues(reason).Inc() }
