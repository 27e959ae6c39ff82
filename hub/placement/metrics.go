package placement

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// RowMetrics are the metrics of a kind that is placed with rows.
type RowMetrics struct {
	// PlanSeconds is the time that planning takes.
	PlanSeconds prometheus.Histogram
	// Waits counts reconciles that ended early because they have to wait for something, by reason.
	Waits *prometheus.CounterVec

	writes *metric.Bounded
}

// NewRowMetrics returns the metrics for a package that places objects of a kind, as in NewRowMetrics("hub_uniteddeployment",
// "UnitedDeployment").
func NewRowMetrics(subsystem, kind string) RowMetrics {
	return RowMetrics{
		PlanSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: metric.Namespace, Subsystem: subsystem, Name: "plan_seconds",
			Help:    fmt.Sprintf("Time that the hub took to plan the next step of a %s.", kind),
			Buckets: metric.PlanBuckets(),
		}),
		writes: metric.NewBounded(prometheus.CounterOpts{
			Namespace: metric.Namespace, Subsystem: subsystem, Name: "row_writes_total",
			Help: fmt.Sprintf("Rows that the hub wrote for %ss, by cluster.", kind),
		}, metric.MostClusters, metric.LabelCluster),
		Waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metric.Namespace, Subsystem: subsystem, Name: "waits_total",
			Help: "Reconciles that ended early because they have to wait for something, by reason.",
		}, []string{metric.LabelReason}),
	}
}

// Register adds the metrics to r.
func (m RowMetrics) Register(r prometheus.Registerer) error {
	return metric.Register(r, m.PlanSeconds, m.writes, m.Waits)
}

// Wrote counts the rows that were written.
func (m RowMetrics) Wrote(results ...Result) {
	for _, r := range results {
		for _, cluster := range r.Written {
			m.writes.WithLabelValues(cluster).Inc()
		}
	}
}
