package agent

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

const subsystem = "agent"

// One process may run the agents of many clusters (push). They share the collectors and differ by the label cluster.
var (
	rowsByPhase = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "rows",
		Help: "Number of rows by the phase last reported.",
	}, []string{metric.LabelCluster, metric.LabelState})
	applies = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "applies_total",
		Help: "Number of objects applied in the member.",
	}, []string{metric.LabelCluster, metric.LabelKind})
	drifts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "drifts_total",
		Help: "Number of times a change to an object in the member was reverted.",
	}, []string{metric.LabelCluster, metric.LabelKind})
	reports = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "reports_total",
		Help: "Number of writes of a row's status to the hub.",
	}, []string{metric.LabelCluster})
	heartbeatAt = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "last_heartbeat_timestamp_seconds",
		Help: "Time when the Lease on the hub was last renewed, in seconds since 1970; its age is time() minus this.",
	}, []string{metric.LabelCluster})
	unclaimedObjects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "unclaimed_objects",
		Help: "Number of objects in the ledger for which the hub has no row.",
	}, []string{metric.LabelCluster})
)

func registerMetrics() error {
	err := metric.Register(ctrlmetrics.Registry,
		rowsByPhase, applies, drifts, reports, heartbeatAt, unclaimedObjects)
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
	labels := prometheus.Labels{metric.LabelCluster: cluster}
	for _, vec := range []*prometheus.MetricVec{
		rowsByPhase.MetricVec, applies.MetricVec, drifts.MetricVec, reports.MetricVec, heartbeatAt.MetricVec, unclaimedObjects.MetricVec,
	} {
		vec.DeletePartialMatch(labels)
	}
}
