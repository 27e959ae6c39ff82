package connect

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// subsystem is the agent's subsystem.
const subsystem = "agent"

var (
	certificateEnds = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "certificate_expiry_timestamp_seconds",
		Help: "Time when the client certificate for the hub expires, in seconds since 1970.",
	}, []string{metric.LabelCluster})
	connectFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "connect_failures_total",
		Help: "Number of failed attempts to join the hub or renew the certificate, by reason.",
	}, []string{metric.LabelCluster, metric.LabelReason})
)

func registerMetrics() error {
	if err := metric.Register(ctrlmetrics.Registry, certificateEnds, connectFailures); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// forgetMetrics drops the metrics of a cluster when its connection ends.
func forgetMetrics(cluster string) {
	labels := prometheus.Labels{metric.LabelCluster: cluster}
	certificateEnds.DeletePartialMatch(labels)
	connectFailures.DeletePartialMatch(labels)
}

// failureReason returns the value of the label reason for an error.
func failureReason(err error) string {
	for reason, sentinel := range map[string]error{
		"NoCredential": ErrNoCredential, "Unauthorized": ErrUnauthorized, "Untrusted": errUntrusted,
		"Unreachable": errUnreachable, "Denied": errDenied, "Expired": errExpired,
	} {
		if errors.Is(err, sentinel) {
			return reason
		}
	}
	return "Other"
}
