package sidecarset

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the labels step and reason.
const (
	stepUpdate   = "Update"
	stepReset    = "Reset"
	stepRefuse   = "Refuse"
	stepRecreate = "Recreate"

	reasonOutdated = "Outdated"
	reasonReplaced = "Replaced"
)

var measure = metric.NewPlanning("sidecarset", kind)

// Register adds the metrics of this package and of package expect to r.
func Register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

func countSteps(u updates) {
	measure.Steps.WithLabelValues(stepUpdate, reasonOutdated).Add(float64(len(u.images)))
	measure.Steps.WithLabelValues(stepReset, reasonReplaced).Add(float64(len(u.resets)))
	measure.Steps.WithLabelValues(stepRecreate, ReasonImmutable).Add(float64(len(u.recreates)))
	measure.Steps.WithLabelValues(stepRefuse, ReasonImmutable).Add(float64(len(u.refused)))
}
