package cloneset

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// leakage has the same name and labels as in OpenKruise, where such a CloneSet stops scaling. It keeps only the latest series.
var leakage = metric.NewBounded(prometheus.CounterOpts{
	Namespace: "cloneset",
	Subsystem: "scale",
	Name:      "expectation_leakage",
	Help:      "Number of times a CloneSet was read from the apiserver because the cache didn't show its last writes in time.",
}, metric.MostNamed, "namespace", "name")

var measure = metric.NewPlanning("cloneset", Kind().Kind)

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), metric.Register(r, leakage), measure.Register(r))
}
