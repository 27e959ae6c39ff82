package agent

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

const subsystem = "agent"

// One process may run the agents of many clusters (push). They share the collectors and differ by the label cluster.
var (
	rowsByPhase = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "rows",
		Help: "Rows by the phase that was reported last.",
	}, []string{metric.LabelCluster, metric.LabelState})
	applies = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "applies_total",
		Help: "Objects that were applied in the member.",
	}, []string{metric.LabelCluster, metric.LabelKind})
	drifts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "drifts_total",
		Help: "Times that a change of an object in the member was reverted.",
	}, []string{metric.LabelCluster, metric.LabelKind})
	reports = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "reports_total",
		Help: "Writes of a row's status to the hub.",
	}, []string{metric.LabelCluster})
	heartbeatAt = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "last_heartbeat_timestamp_seconds",
		Help: "When the Lease on the hub was renewed last, in seconds since 1970; its age is time() minus this.",
	}, []string{metric.LabelCluster})
	certificateEnds = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "certificate_expiry_timestamp_seconds",
		Help: "When the client certificate for the hub ends, in seconds since 1970.",
	}, []string{metric.LabelCluster})
	unclaimedObjects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "unclaimed_objects",
		Help: "Objects in the ledger for which the hub has no row.",
	}, []string{metric.LabelCluster})
	connectFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "connect_failures_total",
		Help: "Failed attempts to join the hub or to renew the certificate, by what was wrong.",
	}, []string{metric.LabelCluster, metric.LabelReason})
)

func registerMetrics() error {
	err := metric.Register(ctrlmetrics.Registry,
		rowsByPhase, applies, drifts, reports, heartbeatAt, certificateEnds, unclaimedObjects, connectFailures)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// countPhase moves a row from one phase to another; an empty phase means none.
func countPhase(cluster string, from, to fleetv1alpha1.WorkPhase) {
	if from == to {
		return
	}
	if from != "" {
		rowsByPhase.WithLabelValues(cluster, string(from)).Dec()
	}
	if to != "" {
		rowsByPhase.WithLabelValues(cluster, string(to)).Inc()
	}
}

// forgetMetrics drops the metrics of a cluster when its agent ends.
func forgetMetrics(cluster string) {
	of := prometheus.Labels{metric.LabelCluster: cluster}
	for _, vec := range []*prometheus.MetricVec{
		rowsByPhase.MetricVec, applies.MetricVec, drifts.MetricVec, reports.MetricVec, heartbeatAt.MetricVec, certificateEnds.MetricVec,
		unclaimedObjects.MetricVec, connectFailures.MetricVec,
	} {
		vec.DeletePartialMatch(of)
	}
}
