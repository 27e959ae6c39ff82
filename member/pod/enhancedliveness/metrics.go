package enhancedliveness

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepRestart = "Restart"
	stepDrop    = "DropRequest"

	reasonFailed    = "ProbeFailed"
	reasonUndone    = "NotRestarted"
	reasonBudget    = "Budget"
	reasonGuard     = "Refused"
	reasonBackoff   = "Backoff"
	reasonNoDaemon  = "NoDaemon"
	reasonRequested = "Requested"
)

var measure = metric.NewPlanning("enhancedliveness", "workload with enhanced liveness probes")

// register adds the metrics of this package to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }
