package protection

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// These have the names and labels of OpenKruise, for its dashboards. Only the latest series are kept, because tenants label and delete
// objects.
var (
	namespaces = metric.NewBounded(prometheus.CounterOpts{
		Name: "namespace_deletion_protection", Help: "Number of refused deletions of namespaces.",
	}, metric.MostNamed, "name", "username")
	crds = metric.NewBounded(prometheus.CounterOpts{
		Name: "crd_deletion_protection", Help: "Number of refused deletions of CRDs.",
	}, metric.MostNamed, "name", "username")
	workloads = metric.NewBounded(prometheus.CounterOpts{
		Name: "workload_deletion_protection", Help: "Number of refused deletions of other objects, as Kind_namespace_name.",
	}, metric.MostNamed, "kind_namespace_name", "username")
)

// register adds the metrics of this package to r.
func register(r prometheus.Registerer) error { return metric.Register(r, namespaces, crds, workloads) }
