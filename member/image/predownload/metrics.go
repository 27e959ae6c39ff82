package predownload

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepCreate = "Create"
	stepChange = "Change"
	stepDelete = "Delete"

	reasonImage    = "Image"
	reasonStrategy = "Strategy"
	reasonUpdated  = "Updated"
)

var measure = metric.NewPlanning("predownload", Feature)

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// count counts the steps of a plan.
func count(p planned) {
	measure.Count(stepCreate, reasonImage, len(p.create))
	measure.Count(stepChange, reasonStrategy, len(p.change))
	measure.Count(stepDelete, reasonUpdated, len(p.drop))
}
