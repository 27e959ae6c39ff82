package advancedcronjob

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the labels step and reason.
const (
	stepCreate = "Create"
	stepDelete = "Delete"

	reasonDue      = "Due"
	reasonReplaced = "Replaced"
	reasonExpired  = "Expired"
	reasonActive   = "Active"
)

var (
	measure = metric.NewPlanning("advancedcronjob", kind)

	startDelay = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "advancedcronjob", Name: "start_delay_seconds",
		Help:    "Delay between the time a run was due and the creation of its job.",
		Buckets: prometheus.ExponentialBuckets(0.1, 4, 9), // 100 ms to 2 hours.
	})
	missedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "advancedcronjob", Name: "missed_total",
		Help: "Number of intervals with missed runs, by reason: Deadline, Superseded, Unclear or TakenOver.",
	}, []string{metric.LabelReason})
	finishedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "advancedcronjob", Name: "finished_total",
		Help: "Number of runs that this manager saw end, by reason: Succeeded, Failed or Removed.",
	}, []string{metric.LabelReason})
	runSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "advancedcronjob", Name: "run_seconds",
		Help:    "Time from start to end of the job of a run, by reason: Succeeded or Failed.",
		Buckets: control.RunBuckets(),
	}, []string{metric.LabelReason})
)

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r), metric.Register(r, startDelay, missedTotal, finishedTotal, runSeconds))
}

// count counts the steps of a plan.
func count(p planned) {
	if !p.create.IsZero() {
		measure.Count(stepCreate, reasonDue, 1)
	}
	measure.Count(stepDelete, reasonReplaced, len(p.replaced))
	measure.Count(stepDelete, reasonExpired, len(p.expired))
	if !p.waiting.IsZero() {
		measure.Wait(reasonActive)
	}
}

// countWritten counts what a written status reports.
func countWritten(p planned, before, after *appsv1beta1.AdvancedCronJobStatus) {
	for _, m := range p.missed {
		missedTotal.WithLabelValues(string(m.why)).Inc()
	}
	for i := range after.Runs {
		run := &after.Runs[i]
		if old := findRun(before.Runs, run.Name); run.Phase == appsv1beta1.AdvancedCronJobRunning || old == nil || old.Phase == run.Phase {
			continue
		}
		finishedTotal.WithLabelValues(string(run.Phase)).Inc()
		if run.Phase != appsv1beta1.AdvancedCronJobRemoved && run.StartTime != nil && run.CompletionTime != nil {
			runSeconds.WithLabelValues(string(run.Phase)).Observe(run.CompletionTime.Sub(run.StartTime.Time).Seconds())
		}
	}
}
