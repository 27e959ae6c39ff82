package podprobemarker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepRelease   = "RemoveFinalizer"
	reasonDeleted = "Deleted"
)

var measure = metric.NewPlanning("podprobemarker", kind)

// register adds the metrics of this package to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }
