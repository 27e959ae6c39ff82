package resourcedistribution

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
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
	reasonNamespace = reasonNamespaceNotFound
)

var measure = metric.NewPlanning("resourcedistribution", kind)

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// count counts the steps of a plan.
func count(p planned) {
	measure.Count(stepCreate, reasonTarget, len(p.create))
	measure.Count(stepUpdate, reasonChanged, len(p.update))
	measure.Count(stepDelete, reasonNoTarget, len(p.remove))
	for reason, waits := range map[string]bool{
		reasonConflict: len(p.taken) > 0, reasonNamespace: len(p.missing) > 0, reasonDeletion: len(p.waiting) > 0,
	} {
		if waits {
			measure.Wait(reason)
		}
	}
	for _, f := range []*failure{p.blocked, p.lacking} {
		if f != nil {
			measure.Wait(f.reason)
		}
	}
}
