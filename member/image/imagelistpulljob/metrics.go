package imagelistpulljob

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

	reasonListed   = "Listed"
	reasonChanged  = "Changed"
	reasonUnwanted = "Unwanted"
)

var measure = metric.NewPlanning("imagelistpulljob", kind)

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// count counts the steps of a plan.
func count(p planned) {
	measure.Count(stepCreate, reasonListed, len(p.create))
	measure.Count(stepChange, reasonChanged, len(p.change))
	measure.Count(stepDelete, reasonUnwanted, len(p.drop))
}
