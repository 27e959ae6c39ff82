package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// meters are the metrics of the package.
type meters struct {
	state    *prometheus.GaugeVec
	expiry   *prometheus.GaugeVec
	requests *prometheus.CounterVec
	blind    prometheus.Gauge
	restarts *prometheus.CounterVec
}

func newMeters() *meters {
	return &meters{
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: metric.Namespace, Subsystem: "cluster", Name: "member_state",
			Help: "1 for the phase that a member cluster is in, 0 for the others.",
		}, []string{metric.LabelCluster, metric.LabelState}),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: metric.Namespace, Subsystem: "cluster", Name: "certificate_expiry_timestamp_seconds",
			Help: "When the member's client certificate ends, in seconds since 1970, as its agent reports it.",
		}, []string{metric.LabelCluster}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metric.Namespace, Subsystem: "cluster", Name: "certificate_requests_total",
			Help: "Certificate requests in members' names, by decision and reason.",
		}, []string{metric.LabelState, metric.LabelReason}),
		blind: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: metric.Namespace, Subsystem: "cluster", Name: "hub_blind",
			Help: "1 while the hub does not see its own Lease renewed, so that no member changes its liveness.",
		}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metric.Namespace, Subsystem: "cluster", Name: "push_agent_ends_total",
			Help: "How often the agent of a push member ended with an error and was started again.",
		}, []string{metric.LabelCluster}),
	}
}

func (m *meters) register(r prometheus.Registerer) error {
	return metric.Register(r, m.state, m.expiry, m.requests, m.blind, m.restarts)
}

// observe sets the series of a cluster.
func (m *meters) observe(cluster string, status fleetv1alpha1.MemberClusterStatus) {
	for _, phase := range []fleetv1alpha1.ClusterPhase{
		fleetv1alpha1.ClusterPending, fleetv1alpha1.ClusterJoining, fleetv1alpha1.ClusterReady,
		fleetv1alpha1.ClusterUnreachable, fleetv1alpha1.ClusterLeaving,
	} {
		value := 0.0
		if phase == status.Phase {
			value = 1
		}
		m.state.WithLabelValues(cluster, string(phase)).Set(value)
	}
	if c := status.Credential; c != nil && c.NotAfter != nil {
		m.expiry.WithLabelValues(cluster).Set(float64(c.NotAfter.Unix()))
	}
}

// forget deletes the series of a deleted cluster.
func (m *meters) forget(cluster string) {
	by := prometheus.Labels{metric.LabelCluster: cluster}
	m.state.DeletePartialMatch(by)
	m.expiry.DeletePartialMatch(by)
	m.restarts.DeletePartialMatch(by)
}
