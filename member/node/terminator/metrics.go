package terminator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepStop      = "Stop"
	reasonDone    = "OthersEnded"
	reasonRuntime = "Runtime"
)

var measure = metric.NewPlanning("node_terminator", "Pod")

// register adds the metrics of the controller to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }
