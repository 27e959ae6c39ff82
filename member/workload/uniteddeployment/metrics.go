package uniteddeployment

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the label step.
const (
	stepCreate    = "Create"
	stepUpdate    = "Update"
	stepDelete    = "Delete"
	stepDeletePod = "DeletePod"
	stepReserve   = "Reserve"
	stepRelease   = "Release"
)

var measure = metric.NewPlanning("uniteddeployment", Kind().Kind)

// Register adds the metrics of this package and of package expect to r.
func Register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// count counts the steps and waits of a plan.
func count(p planned) {
	for i := range p.subsets {
		t := &p.subsets[i]
		measure.Steps.WithLabelValues(stepReserve, reasonUnschedulable).Add(float64(len(t.room.reserved.mark)))
		measure.Steps.WithLabelValues(stepRelease, reasonReady).Add(float64(len(t.room.reserved.release)))
		switch {
		case t.create != nil:
			measure.Steps.WithLabelValues(stepCreate, t.reason).Inc()
		case t.update != nil:
			measure.Steps.WithLabelValues(stepUpdate, t.reason).Inc()
		case t.reason != "":
			measure.Waits.WithLabelValues(t.reason).Inc()
		}
	}
	for _, c := range p.remove {
		measure.Steps.WithLabelValues(stepDelete, c.reason).Inc()
	}
	measure.Steps.WithLabelValues(stepDeletePod, reasonStuck).Add(float64(len(p.stuck)))
}
