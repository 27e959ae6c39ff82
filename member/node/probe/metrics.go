package probe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step, reason and result.
const (
	stepBegin     = "Begin"
	stepEnd       = "End"
	stepReport    = "Report"
	reasonWanted  = "Wanted"
	reasonGone    = "Withdrawn"
	reasonResults = "Results"
	reasonDaemon  = "OtherDaemon"
	reasonWrites  = "WriteInterval"
	reasonMessage = "MessageInterval"

	resultSucceeded = "Succeeded"
	resultFailed    = "Failed"
	resultError     = "Error"
)

var (
	measure = metric.NewPlanning("node_probe", "NodePodProbe")
	active  = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: "node_probe", Name: "workers",
		Help: "Number of probes running on the node.",
	})
	attempts = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "node_probe", Name: "attempt_seconds",
		Help:    "Duration of probe attempts, by handler and result; Error means that the attempt could not be made.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
	}, []string{"handler", "result"})
)

// register adds the metrics of the controller to r.
func register(r prometheus.Registerer) error {
	if err := measure.Register(r); err != nil {
		return err
	}
	return metric.Register(r, active, attempts)
}

// measureAttempt records an attempt.
func measureAttempt(j *job, a attempt, err error, took time.Duration) {
	result := resultFailed
	switch {
	case err != nil:
		result = resultError
	case a.success:
		result = resultSucceeded
	}
	attempts.WithLabelValues(handlerOf(&j.probe.ProbeHandler), result).Observe(took.Seconds())
}

// handlerOf returns the name of a handler's field.
func handlerOf(h *corev1.ProbeHandler) string {
	switch {
	case h.Exec != nil:
		return "exec"
	case h.HTTPGet != nil:
		return "httpGet"
	case h.TCPSocket != nil:
		return "tcpSocket"
	default:
		return "grpc"
	}
}
