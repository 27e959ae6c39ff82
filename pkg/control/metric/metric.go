package metric

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Namespace is the first word of every metric's name.
const Namespace = "flotilla"

// Label names.
const (
	LabelKind    = "kind"
	LabelCluster = "cluster"
	LabelReason  = "reason"
	LabelStep    = "step"
	LabelState   = "state"
)

// PlanBuckets are for pure planning, in seconds: 100 µs to 1.6 s.
func PlanBuckets() []float64 { return prometheus.ExponentialBuckets(0.0001, 4, 8) }

// AnswerBuckets are for responses that the API server waits for, in seconds: 250 µs to 8.2 s.
func AnswerBuckets() []float64 { return prometheus.ExponentialBuckets(0.00025, 2, 16) }

// Register adds collectors to r. It is not an error if one is already registered, so that two managers may share a process.
func Register(r prometheus.Registerer, collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		var already prometheus.AlreadyRegisteredError
		if err := r.Register(c); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}
