package cloneset

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the label step.
const (
	stepCreate        = "Create"
	stepPrepareUpdate = "PrepareUpdate"
	stepPrepareDelete = "PrepareDelete"
	stepReturn        = "Return"
	stepName          = "Name"
	stepDelete        = "Delete"
	stepMark          = "Mark"
	stepEdit          = "Edit"
	stepRelease       = "Release"
)

var measure = metric.NewPass("cloneset", Kind().Kind)

// Register adds the metrics of this package, and of those that it works with, to r.
func Register(r prometheus.Registerer) error {
	if err := expect.Register(r); err != nil {
		return err
	}
	return measure.Register(r)
}

// count notes the steps and waits of a plan.
func count(w work) {
	for _, b := range w.create {
		measure.Steps.WithLabelValues(stepCreate, string(b.reason)).Inc()
	}
	for step, list := range map[string][]change{
		stepPrepareDelete: w.prepareDelete, stepPrepareUpdate: w.prepareUpdate, stepReturn: w.recall,
		stepName: w.name, stepDelete: w.delete, stepMark: w.mark, stepEdit: w.edit, stepRelease: w.release,
	} {
		for _, s := range list {
			measure.Steps.WithLabelValues(step, string(s.reason)).Inc()
		}
	}
	for _, h := range w.holds {
		measure.Waits.WithLabelValues(string(h.Reason)).Inc()
	}
}
