package uniteddeployment

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
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

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// count counts the steps and waits of a plan.
func count(p planned) {
	for i := range p.subsets {
		t := &p.subsets[i]
		measure.Count(stepReserve, reasonUnschedulable, len(t.room.reserved.mark))
		measure.Count(stepRelease, reasonReady, len(t.room.reserved.release))
		switch {
		case t.create != nil:
			measure.Count(stepCreate, t.reason, 1)
		case t.update != nil:
			measure.Count(stepUpdate, t.reason, 1)
		case t.reason != "":
			measure.Wait(t.reason)
		}
	}
	for _, c := range p.remove {
		measure.Count(stepDelete, c.reason, 1)
	}
	measure.Count(stepDeletePod, reasonStuck, len(p.stuck))
}
