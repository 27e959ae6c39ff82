package admission

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Values of the label result.
const (
	resultChanged   = "Changed"
	resultUnchanged = "Unchanged"
	resultFailed    = "Failed"
)

// Values of the label result of an answer.
const (
	resultAllowed = "Allowed"
	resultRefused = "Refused"
)

const (
	subsystem      = "pod_webhook"
	guardSubsystem = "pod_guard"
)

var (
	seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "seconds",
		Help:    "How long the answer to a request to create a pod took in this replica.",
		Buckets: metric.AnswerBuckets(),
	})
	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "steps_total",
		Help: "What the steps of the pod webhook did to pods.",
	}, []string{metric.LabelStep, "result"})
	open = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: subsystem, Name: "namespaces",
		Help: "Namespaces whose new pods are sent to the pod webhook. Only in the leader.",
	})
	guardSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: guardSubsystem, Name: "seconds",
		Help:    "How long the answer to a request to delete, evict, update or resize a pod took in this replica.",
		Buckets: metric.AnswerBuckets(),
	})
	answers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: guardSubsystem, Name: "answers_total",
		Help: "What the guards of pods answered to requests.",
	}, []string{"guard", "operation", "result"})
	openGuarded = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: guardSubsystem, Name: "namespaces",
		Help: "Namespaces whose requests to delete, evict, update and resize pods are sent to the pod webhook. Only in the leader.",
	})
)

// Register adds the metrics of this package to r.
func Register(r prometheus.Registerer) error {
	return metric.Register(r, seconds, steps, open, guardSeconds, answers, openGuarded)
}

func resultOf(o Outcome) string {
	switch {
	case o.Err != nil:
		return resultFailed
	case o.Changed:
		return resultChanged
	}
	return resultUnchanged
}

func answerOf(r *podwebhook.Refusal, err error) string {
	switch {
	case err != nil:
		return resultFailed
	case r != nil:
		return resultRefused
	}
	return resultAllowed
}
