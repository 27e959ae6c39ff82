package env

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the label step, and the reason if no runtime answered.
const (
	stepRestart   = "Restart"
	stepReport    = "Report"
	reasonStarted = "Started"
	reasonRuntime = "Runtime"
)

var measure = metric.NewPlanning("node_env", "Pod")

// register registers the metrics of this package.
func register(r prometheus.Registerer) error { return measure.Register(r) }

// count records the steps and holds of a plan. Restarts are counted when they happen.
func count(p planned) {
	if p.report != "" {
		measure.Count(stepReport, reasonStarted, 1)
	}
	for _, h := range p.holds {
		measure.Wait(string(h.reason))
	}
}
