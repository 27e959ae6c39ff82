package resourcedistribution

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the labels step and reason.
const (
	stepCreate = "Create"
	stepUpdate = "Update"
	stepDelete = "Delete"

	reasonTarget    = "Target"
	reasonChanged   = "Changed"
	reasonNoTarget  = "NoTarget"
	reasonDeletion  = "Deletion"
	reasonWatch     = "Watch"
	reasonNamespace = ReasonNamespaceNotFound
)

var measure = metric.NewPlanning("resourcedistribution", kind)

// Register adds the metrics of this package and of package expect to r.
func Register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// count counts the steps of a plan.
func count(p planned) {
	measure.Steps.WithLabelValues(stepCreate, reasonTarget).Add(float64(len(p.create)))
	measure.Steps.WithLabelValues(stepUpdate, reasonChanged).Add(float64(len(p.update)))
	measure.Steps.WithLabelValues(stepDelete, reasonNoTarget).Add(float64(len(p.remove)))
	for reason, waits := range map[string]bool{
		ReasonConflict: len(p.taken) > 0, reasonNamespace: len(p.missing) > 0, reasonDeletion: len(p.waiting) > 0,
	} {
		if waits {
			measure.Waits.WithLabelValues(reason).Inc()
		}
	}
	for _, f := range []*failure{p.blocked, p.lacking} {
		if f != nil {
			measure.Waits.WithLabelValues(f.reason).Inc()
		}
	}
}
