package broadcastjob

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

var (
	measure = metric.NewPlanning("broadcastjob", kind)

	finishedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "broadcastjob", Name: "finished_total",
		Help: "Number of BroadcastJobs that ended while this manager watched them, by reason: Complete, Failed or DeadlineExceeded.",
	}, []string{metric.LabelReason})

	runSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "broadcastjob", Name: "run_seconds",
		Help:    "Time from start to end of a BroadcastJob, by reason: Complete, Failed or DeadlineExceeded.",
		Buckets: control.RunBuckets(),
	}, []string{metric.LabelReason})
)

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r), metric.Register(r, finishedTotal, runSeconds))
}
