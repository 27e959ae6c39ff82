package image

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepBegin    = "Pull"
	stepCancel   = "Cancel"
	reasonWanted = "Wanted"
	reasonGone   = "Withdrawn"
	reasonFailed = "AttemptFailed"
)

var measure = metric.NewPlanning("node_image", "NodeImage")

// register adds the metrics of the controller to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }
