package statefulset

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

var measure = metric.NewPass("statefulset", Kind().Kind)

// Register adds the metrics of this package, and of those that it works with, to r.
func Register(r prometheus.Registerer) error {
	if err := expect.Register(r); err != nil {
		return err
	}
	return measure.Register(r)
}
