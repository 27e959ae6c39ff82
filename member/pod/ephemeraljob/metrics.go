package ephemeraljob

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the label step, and of the label reason.
const (
	stepAdd     = "AddContainers"
	stepRelease = "Release"
	stepRemove  = "Remove"

	reasonSelected = "Selected"
	reasonDeleted  = "Deleted"
	reasonTTL      = "TTL"
)

var (
	measure = metric.NewPlanning("ephemeraljob", kind)

	finishedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "ephemeraljob", Name: "finished_total",
		Help: "EphemeralJobs that have ended while this manager watched them, by reason: JobSucceeded, ContainersFailed or DeadlineExceeded.",
	}, []string{metric.LabelReason})

	runSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "ephemeraljob", Name: "run_seconds",
		Help:    "How long an EphemeralJob took from its start to its end, by reason: JobSucceeded, ContainersFailed or DeadlineExceeded.",
		Buckets: control.RunBuckets(),
	}, []string{metric.LabelReason})
)

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r), metric.Register(r, finishedTotal, runSeconds))
}
