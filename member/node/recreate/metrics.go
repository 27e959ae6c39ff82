package recreate

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepStop    = "Stop"
	stepReport  = "Report"
	stepQueue   = "Queue"
	stepBegin   = "Begin"
	stepEnd     = "Complete"
	reasonAsked = "Requested"
	reasonOther = "OtherRequest"
	reasonState = "States"

	reasonRuntime = "Runtime"
	reasonDaemon  = "OtherDaemon"
	reasonGrace   = "UnreadyGracePeriod"
)

var measure = metric.NewPlanning("node_recreate", "Pod")

// register adds the metrics of the controller to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }
