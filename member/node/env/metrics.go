package env

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the label step, and the reason if no runtime answered.
const (
	stepRestart   = "Restart"
	stepReport    = "Report"
	reasonStarted = "Started"
	reasonRuntime = "Runtime"
)

var measure = metric.NewPlanning("node_env", "Pod")

// Register registers the metrics of this package.
func Register(r prometheus.Registerer) error { return measure.Register(r) }

// count records the steps and holds of a plan. Restarts are counted when they happen.
func count(p planned) {
	if p.report != "" {
		measure.Steps.WithLabelValues(stepReport, reasonStarted).Inc()
	}
	for _, h := range p.holds {
		measure.Waits.WithLabelValues(string(h.reason)).Inc()
	}
}
