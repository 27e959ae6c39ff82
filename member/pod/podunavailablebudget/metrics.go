package podunavailablebudget

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepAnnotate = "Annotate"
	stepForget   = "Forget"

	reasonUnnamed    = "Unnamed"
	reasonNotDeleted = "NotDeleted"
)

var (
	measure = metric.NewPlanning("podunavailablebudget", kind)
	// refusals has OpenKruise's name and labels, for its dashboards. Only the most recent series are kept.
	refusals = metric.NewBounded(prometheus.CounterOpts{
		Name: "pod_unavailable_budget", Help: "Refused requests for pods, by PodUnavailableBudget_namespace_name of the budget.",
	}, metric.MostNamed, "kind_namespace_name", "username")
)

// register adds the controller's metrics and those of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// registerGuard adds the guard's metrics to r. All replicas call it.
func registerGuard(r prometheus.Registerer) error { return metric.Register(r, refusals) }

func count(p planned) {
	measure.Count(stepAnnotate, reasonUnnamed, len(p.unnamed))
	measure.Count(stepForget, reasonNotDeleted, len(p.notDeleted))
	if p.fault != nil {
		measure.Wait(reasonNotCounted)
	}
}
