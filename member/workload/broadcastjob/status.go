package broadcastjob

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// status returns the status after a reconcile, and its events. It counts the pods as they were observed: what the reconcile changed is
// counted by the next one. The function is pure.
func status(o observed, p planned, a applied, crowded bool, now time.Time) (appsv1beta1.BroadcastJobStatus, []event.Event) {
	old := &o.job.Status
	s := *old.DeepCopy()
	s.Active = int32(p.active) //nolint:gosec // No cluster has so many pods.
	s.SucceededNodes = slices.Sorted(maps.Keys(p.succeeded))
	events := a.Events(&p.Plan, false, nil, nil)
	if finished(o.job) {
		// Counted pods may be deleted, and those of OpenKruise may have been deleted before their nodes were remembered.
		s.Succeeded = max(s.Succeeded, int32(len(p.succeeded)))            //nolint:gosec // Likewise.
		s.Failed = max(s.Failed, int32(p.failed))                          //nolint:gosec // Likewise.
		s.ObservedGeneration = o.job.Generation                            // A user may change the TTL.
		if len(report.OnlyReadiness(s.Conditions, conditionForm())) == 0 { // OpenKruise has ended it.
			s.Conditions = report.PutReadiness(s.Conditions, conditionForm(), ended(&s), now)
		}
		return s, events
	}
	s.ObservedGeneration = o.job.Generation
	s.Desired, s.Succeeded, s.Failed = int32(p.desired), int32(len(p.succeeded)), int32(p.failed) //nolint:gosec // Likewise.
	s.AcceptedFailures, s.Phase = int32(p.accepted), p.phase                                      //nolint:gosec // Likewise.
	if s.StartTime == nil {
		s.StartTime = &metav1.Time{Time: now}
	}
	if s.Failed > old.Failed {
		events = append(events, event.Warning(reasonFailedPod, actionRun, "%d pod(s) failed: %s", s.Failed, event.Names(p.failures())))
	}
	if n := p.removed(a); len(n) > 0 {
		events = append(events, event.Warning(reasonDuplicatePod, podcontrol.ActionScaleIn, "deleted %d pod(s) on nodes that already have one: %s",
			len(n), event.Names(n)))
	}
	switch {
	case p.InvalidSpec != "":
		events = append(events, event.Warning(reasonInvalidSpec, actionRun, "%s", p.InvalidSpec))
	case p.ending != nil:
		s.CompletionTime = &metav1.Time{Time: now}
		s.Conditions = append(s.Conditions, appsv1beta1.BroadcastJobCondition{
			Type: p.ending.condition, Status: corev1.ConditionTrue, LastProbeTime: metav1.Time{Time: now}, LastTransitionTime: metav1.Time{Time: now},
			Reason: p.ending.reason, Message: p.ending.why,
		})
		newEvent := event.Normal
		if p.ending.condition == appsv1beta1.BroadcastJobConditionFailed {
			newEvent = event.Warning
		}
		events = append(events, newEvent(p.ending.event, actionRun, "%s", p.ending.why))
	case p.pause:
		events = append(events, event.Warning(reasonPaused, actionRun, "%s",
			fmt.Sprintf("%d pod(s) failed: set spec.paused to false to continue", s.Failed)))
	case s.Phase == appsv1beta1.BroadcastJobPaused && old.Phase != s.Phase:
		events = append(events, event.Normal(reasonPaused, actionRun, "%s", "no more pods are created"))
	case p.resumes:
		events = append(events, event.Normal(reasonContinue, actionRun, "%s", "pods are created again"))
	}
	if crowded {
		events = append(events, event.Warning(reasonTooManyActivePods, podcontrol.ActionScaleOut,
			"%d pod(s) active, but parallelism is %d: no pod will be created until enough have ended", p.active, p.limit))
	}
	s.Conditions = report.PutReadiness(s.Conditions, conditionForm(), readiness(o.job, &p), now)
	return s, events
}

// readiness reports whether a job has done its work. A job that never completes is ready while the pods on all nodes have succeeded.
func readiness(job *appsv1beta1.BroadcastJob, p *planned) report.Readiness {
	switch {
	case p.InvalidSpec != "":
		return report.Stalled(report.Failure{Reason: reasonInvalidSpec, Message: p.InvalidSpec})
	case p.ending != nil && p.ending.condition == appsv1beta1.BroadcastJobConditionFailed:
		return report.Stalled(report.Failure{Reason: p.ending.reason, Message: p.ending.why})
	case p.ending != nil:
		return report.Ready(p.ending.why)
	case p.phase == appsv1beta1.BroadcastJobPaused:
		return report.Reconciling(report.ReasonPaused, "no pods will be created while the job is paused")
	case neverCompletes(job) && p.failed > 0:
		return report.Stalled(report.Failure{Reason: reasonFailedPod, Message: "pods failed and won't be run again"})
	case neverCompletes(job) && len(p.succeeded) >= p.desired && p.active == 0:
		return report.Ready("the pods on all nodes have succeeded; new nodes get one")
	}
	if r, ok := podcontrol.Unsent(&p.Plan); ok {
		return r
	}
	return report.Reconciling(report.ReasonProgressing, "pods are running or yet to be created")
}

// ended returns the readiness of a job that has ended.
func ended(s *appsv1beta1.BroadcastJobStatus) report.Readiness {
	if s.Phase != appsv1beta1.BroadcastJobFailed {
		return report.Ready("the job is complete")
	}
	return report.StalledAs(s.Conditions, conditionForm(), string(appsv1beta1.BroadcastJobConditionFailed),
		report.Failure{Reason: reasonFailedPod, Message: "the job has failed"})
}

// conditionForm converts the conditions of a BroadcastJob.
func conditionForm() report.Form[appsv1beta1.BroadcastJobCondition] {
	type condition = appsv1beta1.BroadcastJobCondition
	return report.Form[condition]{
		Type: func(c condition) string { return string(c.Type) },
		Entry: func(c condition) report.ConditionEntry {
			return report.ConditionEntry{Status: c.Status, Reason: c.Reason, Message: c.Message, Updated: c.LastProbeTime, Turned: c.LastTransitionTime}
		},
		New: func(t string, e report.ConditionEntry) condition {
			return condition{
				Type: appsv1beta1.BroadcastJobConditionType(t), Status: e.Status, Reason: e.Reason, Message: e.Message,
				LastProbeTime: e.Updated, LastTransitionTime: e.Turned,
			}
		},
	}
}

// failures returns the names of pods that have failed.
func (p *planned) failures() []string {
	var out []string
	for name, state := range p.states {
		if state == failed {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// removed returns the names of duplicates that were deleted.
func (p *planned) removed(a applied) []string {
	var out []string
	for _, r := range a.Steps {
		for _, name := range r.Done {
			if slices.Contains(p.duplicates, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// countsOnly reports whether s differs from old only in counts of pods that are running or have succeeded. Such a status may be written later.
func countsOnly(old, s appsv1beta1.BroadcastJobStatus) bool {
	s.Desired, s.Active, s.Succeeded, s.SucceededNodes = old.Desired, old.Active, old.Succeeded, old.SucceededNodes
	return apiequality.Semantic.DeepEqual(old, s)
}
