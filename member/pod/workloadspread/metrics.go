package workloadspread

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
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

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

func count(p planned) {
	if p.inactive != nil {
		measure.Wait(p.inactive.reason)
		return
	}
	for _, to := range p.patches {
		if to.adopted {
			measure.Count(stepAdopt, reasonNode, 1)
		} else {
			measure.Count(stepPrice, reasonSubset, 1)
		}
	}
	measure.Count(stepDelete, reasonUnschedulable, len(p.deletes))
	measure.Count(stepFree, reasonUnseen, len(p.lost))
}
