package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
)

var (
	runtimeUp = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: "node", Name: "runtime_up",
		Help: "1 while a container runtime of the node answers the daemon, else 0.",
	})
	otherDaemon = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: "node", Name: "other_daemon",
		Help: "1 while another node daemon restarts containers of the node and this one stands back, else 0.",
	})
	leaseFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "node", Name: "lease_failures_total",
		Help: "Number of failed renewals of the node's Lease.",
	})
)

// register adds the metrics of this package, and of those that it works with, to r.
func register(r prometheus.Registerer) error {
	if err := cri.Register(r); err != nil {
		return err
	}
	return metric.Register(r, runtimeUp, otherDaemon, leaseFailures)
}
