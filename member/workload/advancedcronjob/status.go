package advancedcronjob

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// runsKept is the maximum number of runs in the status.
const runsKept = 10

// status returns the status after a reconcile, and its events. The function is pure.
func status(o observed, p planned, a applied, now time.Time) (appsv1beta1.AdvancedCronJobStatus, []event.Event) {
	before := &o.cron.Status
	s := *before.DeepCopy()
	s.Type, s.ObservedGeneration = typeOf(&o.cron.Spec.Template), o.cron.Generation
	events := a.events
	if p.invalid != "" {
		events = append(events, event.Warning(reasonInvalidSpec, actionRun, "%s", p.invalid))
	}
	if p.future {
		events = append(events, event.Warning(reasonClockSetBack, actionRun, "the latest run was due at a time in the future, so the clock was set back: "+
			"no run will start until then. Re-create the AdvancedCronJob to start earlier"))
	}
	if at := lastScheduled(&o); !at.IsZero() {
		s.LastScheduleTime = timeOf(at)
	}
	for _, m := range p.missed {
		if s.LastMissedTime == nil || m.latest.After(s.LastMissedTime.Time) {
			s.LastMissedTime = timeOf(m.latest)
		}
		events = append(events, m.event())
	}
	s.WaitingScheduleTime = nil
	if !p.waiting.IsZero() {
		s.WaitingScheduleTime = timeOf(p.waiting)
		if before.WaitingScheduleTime == nil {
			events = append(events, event.Normal(reasonJobAlreadyActive, actionRun, "the run due at %s is waiting until no other run is active",
				formatTime(p.waiting)))
		}
	}
	if p.settled || a.created != nil {
		s.Pending = nil
	}
	decided := p.start
	if p.direct {
		decided = p.create
	}
	if !decided.IsZero() {
		s.LastScheduleTime = timeOf(decided)
		if a.created == nil {
			s.Pending = &appsv1beta1.AdvancedCronJobPending{ScheduleTime: *timeOf(decided), Since: *timeOf(now)}
		}
	}
	o.children = slices.DeleteFunc(slices.Clone(o.children), func(c child) bool { return a.removed[c.GetUID()] })
	if a.created != nil {
		if !slices.ContainsFunc(o.children, func(c child) bool { return c.GetUID() == a.created.GetUID() }) {
			o.children = append(o.children, childOf(a.created))
		}
	}
	s.Runs = runs(&o)
	for i := range s.Runs {
		run := &s.Runs[i]
		if old := findRun(before.Runs, run.Name); run.Phase == appsv1beta1.AdvancedCronJobRunning || old == nil || old.Phase == run.Phase {
			continue
		}
		if run.Phase == appsv1beta1.AdvancedCronJobRemoved && slices.ContainsFunc(p.replaced, func(c child) bool { return c.GetName() == run.Name }) {
			continue // An event says that it was replaced.
		}
		events = append(events, endedEvent(run))
	}
	s.Active = active(&o, s.Type)
	s.Conditions = report.SetReadiness(s.Conditions, readiness(&p), o.cron.Generation, now)
	return s, events
}

// readiness reports whether runs are started when they are due. How they end is in the status of each run.
func readiness(p *planned) report.Readiness {
	switch {
	case p.invalid != "":
		return report.Stalled(report.Failure{Reason: reasonInvalidSpec, Message: p.invalid})
	case p.future:
		return report.Stalled(report.Failure{Reason: reasonClockSetBack, Message: "no run will start until the latest one would be due again"})
	}
	return report.Ready("runs are started when they are due")
}

func endedEvent(run *appsv1beta1.AdvancedCronJobRun) event.Event {
	switch run.Phase { //nolint:exhaustive // It has ended.
	case appsv1beta1.AdvancedCronJobSucceeded:
		return event.Normal(reasonSawCompletedJob, actionRun, "%s has succeeded", run.Name)
	case appsv1beta1.AdvancedCronJobFailed:
		return event.Warning(reasonSawCompletedJob, actionRun, "%s has failed", run.Name)
	}
	return event.Normal(reasonSawCompletedJob, actionRun, "%s was deleted before its end was seen", run.Name)
}

// event says which runs are missed, and why.
func (m missed) event() event.Event {
	what := "the run due at " + formatTime(m.first)
	if !m.first.Equal(m.latest) {
		what = "the runs due from " + formatTime(m.first) + " to " + formatTime(m.latest)
	}
	why := "because startingDeadlineSeconds had passed"
	switch m.why {
	case missDeadline:
	case missSuperseded:
		why = "because a later run was due before it could start: only the latest one is started"
	case missUnclear:
		why = "because its job may have been created, finished and deleted after its TTL while the manager was down: create a job " +
			"from the template if it didn't run"
	case missTakenOver:
		why = "because another controller may have run it and deleted its job: create a job from the template if it didn't"
	}
	return event.Warning(reasonMissedSchedule, actionRun, "%s will not be started, %s", what, why)
}

// active returns references to the jobs that have not ended.
func active(o *observed, templateKind appsv1beta1.AdvancedCronJobTemplateKind) []corev1.ObjectReference {
	var out []corev1.ObjectReference
	version, kind := gvkOf(templateKind).ToAPIVersionAndKind()
	for i := range o.children {
		if c := &o.children[i]; c.active() {
			out = append(out, corev1.ObjectReference{
				APIVersion: version, Kind: kind, Namespace: c.GetNamespace(), Name: c.GetName(), UID: c.GetUID(),
			})
		}
	}
	slices.SortFunc(out, func(a, b corev1.ObjectReference) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// runs returns the latest runs, newest first. They come from the jobs and, if the job is gone, from the status.
func runs(o *observed) []appsv1beta1.AdvancedCronJobRun {
	type entry struct {
		appsv1beta1.AdvancedCronJobRun
		at time.Time
	}
	var all []entry
	here := map[string]bool{}
	for i := range o.children {
		c := &o.children[i]
		here[c.GetName()] = true
		at := c.due
		if at.IsZero() {
			at = c.GetCreationTimestamp().Time
		}
		all = append(all, entry{c.run, at})
	}
	for _, run := range o.cron.Status.Runs {
		if here[run.Name] {
			continue
		}
		if run.Phase == appsv1beta1.AdvancedCronJobRunning {
			run.Phase = appsv1beta1.AdvancedCronJobRemoved
		}
		var at metav1.Time
		switch {
		case run.ScheduleTime != nil:
			at = *run.ScheduleTime
		case run.StartTime != nil:
			at = *run.StartTime
		}
		all = append(all, entry{run, at.Time})
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.Name, b.Name)) })
	out := make([]appsv1beta1.AdvancedCronJobRun, 0, runsKept)
	for _, e := range all[:min(len(all), runsKept)] {
		out = append(out, e.AdvancedCronJobRun)
	}
	return out
}

func findRun(all []appsv1beta1.AdvancedCronJobRun, name string) *appsv1beta1.AdvancedCronJobRun {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

func sameRun(a, b *appsv1beta1.AdvancedCronJobRun) bool { return apiequality.Semantic.DeepEqual(a, b) }
