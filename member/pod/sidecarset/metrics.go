package sidecarset

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
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

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

func countSteps(u updates) {
	measure.Count(stepUpdate, reasonOutdated, len(u.images))
	measure.Count(stepReset, reasonReplaced, len(u.resets))
	measure.Count(stepRecreate, reasonImmutable, len(u.recreates))
	measure.Count(stepRefuse, reasonImmutable, len(u.markNotUpgradable))
}
