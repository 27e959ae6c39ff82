package expect

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

var timeouts = prometheus.NewCounterVec(prometheus.CounterOpts{
	Namespace: metric.Namespace,
	Subsystem: "expect",
	Name:      "timeouts_total",
	Help:      "How often a controller gave up waiting for its cache to show its last writes and read from the apiserver instead.",
}, []string{metric.LabelKind})

var losses = prometheus.NewCounterVec(prometheus.CounterOpts{
	Namespace: metric.Namespace,
	Subsystem: "expect",
	Name:      "losses_total",
	Help:      "How many objects were gone again before the cache of the controller that created them showed them.",
}, []string{metric.LabelKind})

// Register adds the package's metrics to r.
func Register(r prometheus.Registerer) error { return metric.Register(r, timeouts, losses) }
