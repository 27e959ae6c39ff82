package workloadspread

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the labels step and reason.
const (
	stepAdopt  = "Adopt"
	stepPrice  = "Price"
	stepDelete = "Delete"
	stepFree   = "Free"

	reasonNode   = "Node"
	reasonSubset = "Subset"
	reasonUnseen = "Unseen"
)

var measure = metric.NewPlanning("workloadspread", kind)

// Register adds the metrics of this package and of package expect to r.
func Register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

func count(p planned) {
	if p.inactive != nil {
		measure.Waits.WithLabelValues(p.inactive.reason).Inc()
		return
	}
	for _, to := range p.patches {
		if to.adopted {
			measure.Steps.WithLabelValues(stepAdopt, reasonNode).Inc()
		} else {
			measure.Steps.WithLabelValues(stepPrice, reasonSubset).Inc()
		}
	}
	measure.Steps.WithLabelValues(stepDelete, ReasonUnschedulable).Add(float64(len(p.deletes)))
	measure.Steps.WithLabelValues(stepFree, reasonUnseen).Add(float64(len(p.lost)))
}
