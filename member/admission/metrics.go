package admission

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the label result.
const (
	resultChanged   = "Changed"
	resultUnchanged = "Unchanged"
	resultFailed    = "Failed"
)

const subsystem = "pod_webhook"

var (
	seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "seconds",
		Help:    "How long the answer to a request to create a pod took in this replica.",
		Buckets: metric.PlanBuckets(),
	})
	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "steps_total",
		Help: "What the steps of the pod webhook did to pods.",
	}, []string{metric.LabelStep, "result"})
	open = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "namespaces",
		Help: "Namespaces whose pods are sent to the pod webhook. Only in the leader.",
	})
)

// Register adds the metrics of this package to r.
func Register(r prometheus.Registerer) error { return metric.Register(r, seconds, steps, open) }

func resultOf(o Outcome) string {
	switch {
	case o.Err != nil:
		return resultFailed
	case o.Changed:
		return resultChanged
	}
	return resultUnchanged
}
