package protection

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/metric"
)

// These have the names and labels of OpenKruise, for its dashboards. A series is made by a refusal of an object that somebody has
// labelled, so there are few.
var (
	namespaces = prometheus.NewCounterVec(prometheus.CounterOpts{ //nolint:promlinter // OpenKruise's name.
		Name: "namespace_deletion_protection", Help: "Refused deletions of namespaces.",
	}, []string{"name", "username"})
	crds = prometheus.NewCounterVec(prometheus.CounterOpts{ //nolint:promlinter // OpenKruise's name.
		Name: "crd_deletion_protection", Help: "Refused deletions of CRDs.",
	}, []string{"name", "username"})
	workloads = prometheus.NewCounterVec(prometheus.CounterOpts{ //nolint:promlinter // OpenKruise's name.
		Name: "workload_deletion_protection", Help: "Refused deletions of other objects, as Kind_namespace_name.",
	}, []string{"kind_namespace_name", "username"})
)

// Register adds the metrics of this package to r.
func Register(r prometheus.Registerer) error { return metric.Register(r, namespaces, crds, workloads) }
