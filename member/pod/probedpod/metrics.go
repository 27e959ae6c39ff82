package probedpod

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepConditions = "PatchConditions"
	stepMetadata   = "PatchMetadata"
	reasonResult   = "Result"
)

var measure = metric.NewPlanning("probedpod", "pod that is probed")

// register adds the metrics of this package to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }
