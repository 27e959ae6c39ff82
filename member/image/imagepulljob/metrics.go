package imagepulljob

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepPull     = "Pull"
	stepChange   = "Change"
	stepWithdraw = "Withdraw"

	reasonParallelism = "Parallelism"
)

// Reasons of steps.
const (
	// reasonSelected means that the node is selected, and there is space for the pull.
	reasonSelected = "Selected"
	// reasonChanged means that the spec of the job has changed.
	reasonChanged = "Changed"
	// reasonRetried means that the limits of a failed pull have changed.
	reasonRetried = "Retried"
	// reasonNotSelected means that the node is no longer selected, or is selected for another image.
	reasonNotSelected = "NotSelected"
	// reasonComplete means that the job is complete but the node is not done.
	reasonComplete = "Complete"
	// reasonDeleted means that the job is being deleted.
	reasonDeleted = "Deleted"
)

var measure = metric.NewPlanning("imagepulljob", kind)

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// count counts the steps of a plan.
func count(p planned) {
	for _, s := range p.steps {
		kind := stepChange
		switch {
		case s.begins:
			kind = stepPull
		case s.entry == nil:
			kind = stepWithdraw
		}
		measure.Count(kind, s.reason, 1)
	}
	if p.pending > 0 {
		measure.Wait(reasonParallelism)
	}
}
