package podunavailablebudget

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
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
	// refusals has the name and the labels of OpenKruise, for its dashboards, and the latest series.
	refusals = metric.NewBounded(prometheus.CounterOpts{
		Name: "pod_unavailable_budget", Help: "Refused requests for pods, by PodUnavailableBudget_namespace_name of the budget.",
	}, metric.MostNamed, "kind_namespace_name", "username")
)

// Register adds the metrics of the controller and of package expect to r.
func Register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

// RegisterGuard adds the metrics of the guard to r, in all replicas.
func RegisterGuard(r prometheus.Registerer) error { return metric.Register(r, refusals) }

// count counts the steps of a plan.
func count(p planned) {
	measure.Steps.WithLabelValues(stepAnnotate, reasonUnnamed).Add(float64(len(p.unnamed)))
	measure.Steps.WithLabelValues(stepForget, reasonNotDeleted).Add(float64(len(p.notDeleted)))
	if p.fault != nil {
		measure.Waits.WithLabelValues(ReasonNotCounted).Inc()
	}
}
