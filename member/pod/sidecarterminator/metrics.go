package sidecarterminator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepPhase   = "EndPod"
	stepImage   = "ReplaceImage"
	reasonEnded = "OthersEnded"
)

var measure = metric.NewPlanning("sidecarterminator", "Pod")

// register adds the metrics of the controller to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }
