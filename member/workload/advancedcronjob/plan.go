package advancedcronjob

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/member/workload/advancedcronjob/cronschedule"
)

const (
	// lookAgain is the longest time between two reconciles of a schedule. A timer does not notice that the clock was set, or that the machine
	// slept.
	lookAgain = time.Minute
	// ahead is how far in the future the latest run may be before that is reported, because clocks differ.
	ahead = time.Minute
)

// Defaults of the history limits, as admission sets them.
const (
	defaultSuccessful = 3
	defaultFailed     = 1
)

// missReason says why a run was missed.
type missReason string

const (
	missDeadline   missReason = "Deadline"   // startingDeadlineSeconds had passed
	missSuperseded missReason = "Superseded" // a later run was due before it could start
	missUnclear    missReason = "Unclear"    // it is not known whether it ran
	missTakenOver  missReason = "TakenOver"  // another controller has left no record
)

// missed describes runs that were not started, and will not be.
type missed struct {
	first, latest time.Time
	why           missReason
}

// planned is the next step.
type planned struct {
	// invalid says why the spec can't be carried out.
	invalid string
	// missed are runs that are given up, oldest first.
	missed []missed
	// start is the run that is decided now: the status makes it the pending one.
	start time.Time
	// create is the run whose job is to be created: the pending run, or else one that is due now.
	create time.Time
	// direct means that create is not pending. Its job is created without a prior write of the status, and is itself the record of the run.
	direct bool
	// replaced are active jobs to delete before the run starts.
	replaced []child
	// settled means that the pending run has its job, or is given up.
	settled bool
	// waiting is the run that is due but waits because others are active.
	waiting time.Time
	// future means that the latest run is so far ahead that the clock must have been set back.
	future bool
	// expired are jobs beyond the history limits.
	expired []child
	// recheck is when the passing of time alone changes the plan; 0 means never.
	recheck time.Duration
}

// plan returns the next step. It is a pure function of what was observed and of the time.
func plan(o observed, now time.Time) planned {
	var p planned
	p.expired = expired(&o)
	if typeOf(&o.cron.Spec.Template) == "" {
		p.invalid = "spec.template: exactly one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate must be set"
		return p
	}
	schedule, err := cronschedule.Parse(o.cron.Spec.Schedule, o.cron.Spec.TimeZone, o.local)
	if err != nil {
		p.invalid = "spec.schedule: " + err.Error()
		return p
	}
	decided := p.decidedUntil(&o, schedule, now)
	p.future = decided.After(now.Add(ahead))
	p.pending(&o, schedule, now)
	if p.create.IsZero() && !ptr.Deref(o.cron.Spec.Paused, false) {
		p.planNext(&o, schedule, decided, now)
	}
	if !p.create.IsZero() && policyOf(o.cron) == appsv1beta1.AdvancedCronJobReplace {
		for _, c := range o.children {
			if c.active() && !c.terminating() && !c.due.Equal(p.create) {
				p.replaced = append(p.replaced, c)
			}
		}
	}
	if !ptr.Deref(o.cron.Spec.Paused, false) {
		p.recheck = lookAgain
		since := latest(latest(decided, p.start), latest(p.create, p.waiting))
		for _, m := range p.missed {
			since = latest(since, m.latest)
		}
		if next := schedule.Next(since); next.After(now) { // Another run may be waiting to be created.
			p.recheck = min(p.recheck, next.Sub(now))
		}
	}
	return p
}

// decidedUntil returns the time until which each run was started or given up. Runs that were due until then are never started again.
func (p *planned) decidedUntil(o *observed, schedule cronschedule.Schedule, now time.Time) time.Time {
	s := &o.cron.Status
	at := latest(o.cron.CreationTimestamp.Time, lastScheduled(o))
	if s.LastMissedTime != nil {
		at = latest(at, s.LastMissedTime.Time)
	}
	// A status of OpenKruise without a time may mean that no run was due, or that the jobs of all runs were deleted.
	if takenOver := s.Type != "" && s.ObservedGeneration == 0; takenOver && lastScheduled(o).IsZero() {
		if due, ok := schedule.Between(at, now); ok {
			p.missed = append(p.missed, missed{due.First, due.Latest, missTakenOver})
			at = due.Latest
		}
	}
	return at
}

// lastScheduled returns when the latest started run was due, according to the status, the jobs, and what this process has created. The status
// may show a run later than the job.
func lastScheduled(o *observed) time.Time {
	var at time.Time
	if t := o.cron.Status.LastScheduleTime; t != nil {
		at = t.Time
	}
	at = latest(at, o.created)
	for i := range o.children {
		at = latest(at, o.children[i].due)
	}
	return at
}

// pending decides what happens to the pending run.
func (p *planned) pending(o *observed, schedule cronschedule.Schedule, now time.Time) {
	pending := o.cron.Status.Pending
	if pending == nil {
		return
	}
	due := pending.ScheduleTime.UTC()
	giveUp := func(why missReason) {
		p.settled = true
		p.missed = append(p.missed, missed{due, due, why})
	}
	ttl := ttlOf(&o.cron.Spec.Template)
	switch {
	case o.pending == created, slices.ContainsFunc(o.children, func(c child) bool {
		return c.due.Equal(due) || c.GetName() == nameOf(o.cron, due)
	}):
		p.settled = true
	case tooLate(o.cron, due, now):
		giveUp(missDeadline)
	case o.pending == unknown && ttl != nil && !now.Before(pending.Since.Add(time.Duration(*ttl)*time.Second)):
		giveUp(missUnclear)
	default:
		if _, later := schedule.Between(due, now); later && !ptr.Deref(o.cron.Spec.Paused, false) {
			giveUp(missSuperseded)
			return
		}
		p.create = due
	}
}

// tooLate reports whether a run may no longer start.
func tooLate(cron *appsv1beta1.AdvancedCronJob, due, now time.Time) bool {
	d := cron.Spec.StartingDeadlineSeconds
	return d != nil && due.Unix() < now.Unix()-*d
}

// planNext finds the run to start: the latest one that has become due since the given time.
func (p *planned) planNext(o *observed, schedule cronschedule.Schedule, since, now time.Time) {
	due, ok := schedule.Between(since, now)
	if !ok {
		return
	}
	if tooLate(o.cron, due.Latest, now) {
		p.missed = append(p.missed, missed{due.First, due.Latest, missDeadline})
		return
	}
	if policyOf(o.cron) == appsv1beta1.AdvancedCronJobForbid && slices.ContainsFunc(o.children, func(c child) bool { return c.active() }) {
		p.waiting = due.Latest
		return
	}
	p.start = due.Latest
	if before, several := schedule.Between(since, due.Latest.Add(-time.Second)); several {
		why := missSuperseded
		if tooLate(o.cron, before.Latest, now) {
			why = missDeadline
		}
		p.missed = append(p.missed, missed{before.First, before.Latest, why})
	}
	if isRecordedByJob(o.cron) && len(p.missed) == 0 {
		p.start, p.create, p.direct = time.Time{}, p.start, true
	}
}

// isRecordedByJob reports whether the job of a run stays until the status shows the run, so that nothing needs to be written before the job is
// created. After a crash, the name of the job shows that the run was started. A TTL may remove the job while nobody looks.
func isRecordedByJob(cron *appsv1beta1.AdvancedCronJob) bool {
	return ttlOf(&cron.Spec.Template) == nil
}

// policyOf returns the concurrencyPolicy or its default.
func policyOf(cron *appsv1beta1.AdvancedCronJob) appsv1beta1.AdvancedCronJobConcurrencyPolicy {
	switch policy := cron.Spec.ConcurrencyPolicy; {
	case policy != "":
		return policy
	case cron.Spec.Template.ImageListPullJobTemplate != nil:
		return appsv1beta1.AdvancedCronJobReplace
	}
	return appsv1beta1.AdvancedCronJobAllow
}

// expired returns the jobs beyond the history limits, oldest first. A job stays until the status has its result and the status no longer waits
// for it, because the job of a pending run must be found.
func expired(o *observed) []child {
	current := runs(o)
	var succeeded, failed []child
	for _, c := range o.children {
		if p := o.cron.Status.Pending; !c.ended() || c.terminating() || p != nil && c.due.Equal(p.ScheduleTime.Time) ||
			!sameRun(findRun(current, c.GetName()), findRun(o.cron.Status.Runs, c.GetName())) {
			continue
		}
		if c.run.Phase == appsv1beta1.AdvancedCronJobSucceeded {
			succeeded = append(succeeded, c)
		} else {
			failed = append(failed, c)
		}
	}
	beyond := func(all []child, limit int32) []child {
		slices.SortStableFunc(all, func(a, b child) int { return a.startedAt().Compare(b.startedAt()) })
		return all[:max(len(all)-int(max(limit, 0)), 0)]
	}
	return slices.Concat(beyond(succeeded, ptr.Deref(o.cron.Spec.SuccessfulJobsHistoryLimit, defaultSuccessful)),
		beyond(failed, ptr.Deref(o.cron.Spec.FailedJobsHistoryLimit, defaultFailed)))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
