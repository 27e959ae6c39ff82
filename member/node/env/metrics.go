package env

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the label step, and the reason of a reconcile that had no runtime to ask.
const (
	stepRestart   = "Restart"
	stepReport    = "Report"
	reasonStarted = "Started"
	reasonRuntime = "Runtime"
)

var measure = metric.NewPass("node_env", "Pod")

// Register adds the metrics of this package to r.
func Register(r prometheus.Registerer) error { return measure.Register(r) }

// count notes what a plan reports and what it waits for. Restarts are counted when they are made.
func count(w work) {
	if w.report != "" {
		measure.Steps.WithLabelValues(stepReport, reasonStarted).Inc()
	}
	for _, h := range w.holds {
		measure.Waits.WithLabelValues(string(h.reason)).Inc()
	}
}
