package launchpriority

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepLaunch    = "Launch"
	reasonReady   = "Ready"
	reasonStalled = "Stalled"
)

var measure = metric.NewPlanning("launchpriority", "pod with launch priorities")

// register adds the metrics of the controller and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}
