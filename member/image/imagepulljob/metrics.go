package imagepulljob

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the labels step and reason.
const (
	stepPull     = "Pull"
	stepChange   = "Change"
	stepWithdraw = "Withdraw"

	reasonParallelism = "Parallelism"
)

var measure = metric.NewPlanning("imagepulljob", kind)

// Register adds the metrics of this package and of package expect to r.
func Register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// count counts the steps of a plan.
func count(p planned) {
	for _, s := range p.steps {
		of := stepChange
		switch {
		case s.begins:
			of = stepPull
		case s.entry == nil:
			of = stepWithdraw
		}
		measure.Steps.WithLabelValues(of, s.reason).Inc()
	}
	if p.pending > 0 {
		measure.Waits.WithLabelValues(reasonParallelism).Inc()
	}
}
