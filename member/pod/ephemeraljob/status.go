package ephemeraljob

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

type conditionType = appsv1alpha1.EphemeralJobConditionType

// status returns the status after a reconcile, and its events. It counts the pods as they were observed. The next reconcile counts what this
// one changed. The function is pure.
func status(o observed, p planned, a applied, now time.Time) (appsv1alpha1.EphemeralJobStatus, []event.Event) {
	was := &o.job.Status
	s := *was.DeepCopy()
	at := metav1.NewTime(now).Rfc3339Copy()
	s.Running, s.Waiting = int32(p.running), int32(p.waiting) //nolint:gosec // No cluster has so many pods.
	if finished(o.job) {
		// Counted pods may be gone by now, and containers that still run may finish.
		s.Succeeded = max(s.Succeeded, int32(p.succeeded)) //nolint:gosec // Likewise.
		s.Failed = max(s.Failed, int32(p.failed))          //nolint:gosec // Likewise.
		if s.CompletionTime == nil {
			s.CompletionTime = &at
		}
		if find(s.Conditions, keys.ConditionReady) == nil { // OpenKruise finished it.
			s.ObservedGeneration = o.job.Generation
			s.Conditions = report.PutReadiness(s.Conditions, conditionForm(), ended(&s), now)
		}
		return s, nil
	}
	s.Phase = p.phase
	s.Matches, s.Succeeded, s.Failed = int32(p.sum()), int32(p.succeeded), int32(p.failed) //nolint:gosec // Likewise.
	if s.StartTime == nil {
		s.StartTime = &at
	}
	s.ObservedGeneration = o.job.Generation
	var events []event.Event
	if len(a.added) > 0 {
		events = append(events, event.Normal(ReasonContainersAdded, actionRun, "added the containers to %d pods: %s", len(a.added), event.Names(a.added)))
	}
	if find(s.Conditions, appsv1alpha1.EphemeralJobInitialized) == nil {
		s.Conditions = put(s.Conditions, appsv1alpha1.EphemeralJobInitialized, initialized, "", at)
	}
	s.Conditions = put(s.Conditions, appsv1alpha1.EphemeralJobMatchedEmpty, when(p.empty, matchEmpty), p.empty, at)
	reason, message := faultOf(p, a)
	s.Conditions = put(s.Conditions, appsv1alpha1.EphemeralJobConditionError, reason, message, at)
	if is := find(s.Conditions, appsv1alpha1.EphemeralJobConditionError); is != nil {
		before := find(was.Conditions, appsv1alpha1.EphemeralJobConditionError)
		if a.Err() != nil || before == nil || before.Reason != is.Reason || before.Message != is.Message {
			events = append(events, event.Warning(reason, actionRun, "%s", message))
		}
	}
	if e := p.ending; e != nil {
		s.CompletionTime = &at
		s.Conditions = put(s.Conditions, e.condition, e.reason, e.why, at)
		of := event.Normal
		if e.phase == appsv1alpha1.EphemeralJobFailed {
			of = event.Warning
		}
		events = append(events, of(e.reason, actionRun, "%s", e.why))
	}
	s.Conditions = report.PutReadiness(s.Conditions, conditionForm(), readiness(&p, &a), now)
	return s, events
}

// readiness returns whether a job has done its work. Pods for which the containers are invalid are left out. Other rejections are retried.
func readiness(p *planned, a *applied) report.Readiness {
	switch {
	case p.invalidSpec != "":
		return report.Stalled(report.Failure{Reason: ReasonInvalidSpec, Message: p.invalidSpec})
	case p.ending != nil && p.ending.phase == appsv1alpha1.EphemeralJobFailed:
		return report.Stalled(report.Failure{Reason: p.ending.reason, Message: p.ending.why})
	case p.ending != nil:
		return report.Ready(p.ending.why)
	case a.Err() != nil:
		return report.Retrying(report.WriteFailure(a.Err()))
	case p.phase == appsv1alpha1.EphemeralJobPause:
		return report.Reconciling(report.ReasonPaused, "no pods get containers until the job isn't paused any more")
	case p.empty != "":
		return report.Reconciling(matchEmpty, p.empty)
	}
	return report.Reconciling(report.ReasonProgressing, "containers run, or are still to be added to pods")
}

// ended returns the readiness of a finished job.
func ended(s *appsv1alpha1.EphemeralJobStatus) report.Readiness {
	if s.Phase != appsv1alpha1.EphemeralJobFailed {
		return report.Ready("the containers have ended in all pods")
	}
	return report.StalledAs(s.Conditions, conditionForm(), string(appsv1alpha1.EphemeralJobConditionFailed),
		report.Failure{Reason: ReasonContainersFailed, Message: "containers have failed"})
}

// conditionForm returns how to read and write the conditions of an EphemeralJob.
func conditionForm() report.Form[appsv1alpha1.EphemeralJobCondition] {
	type condition = appsv1alpha1.EphemeralJobCondition
	return report.Form[condition]{
		Type: func(c condition) string { return string(c.Type) },
		Entry: func(c condition) report.ConditionEntry {
			return report.ConditionEntry{Status: c.Status, Reason: c.Reason, Message: c.Message, Updated: c.LastProbeTime, Turned: c.LastTransitionTime}
		},
		New: func(t string, e report.ConditionEntry) condition {
			return condition{
				Type: conditionType(t), Status: e.Status, Reason: e.Reason, Message: e.Message,
				LastProbeTime: e.Updated, LastTransitionTime: e.Turned,
			}
		},
	}
}

// faultOf returns the reason and message of a job's fault, or "" if there is none.
func faultOf(p planned, a applied) (reason, message string) {
	switch {
	case p.invalidSpec != "":
		return ReasonInvalidSpec, p.invalidSpec
	case a.Err() != nil:
		return ReasonCreateFailed, a.Err().Error()
	case p.refusal != "":
		return ReasonCreateFailed, p.refusal
	}
	return "", ""
}

// when returns reason if there is a message, otherwise "".
func when(message, reason string) string {
	if message == "" {
		return ""
	}
	return reason
}

// find returns the condition of a type, or nil.
func find(conditions []appsv1alpha1.EphemeralJobCondition, is conditionType) *appsv1alpha1.EphemeralJobCondition {
	for i := range conditions {
		if conditions[i].Type == is {
			return &conditions[i]
		}
	}
	return nil
}

// put returns the conditions with one of that type set to True. Without a reason, it removes the condition.
func put(
	conditions []appsv1alpha1.EphemeralJobCondition, is conditionType, reason, message string, at metav1.Time,
) []appsv1alpha1.EphemeralJobCondition {
	of := func(c appsv1alpha1.EphemeralJobCondition) bool { return c.Type == is }
	if reason == "" {
		return report.PutCondition(conditions, of, nil)
	}
	next := appsv1alpha1.EphemeralJobCondition{
		Type: is, Status: corev1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at, Reason: reason, Message: report.Truncate(message),
	}
	if before := find(conditions, is); before != nil {
		if before.Status == next.Status {
			next.LastTransitionTime = before.LastTransitionTime
		}
		if before.Status == next.Status && before.Reason == next.Reason && before.Message == next.Message {
			next.LastProbeTime = before.LastProbeTime
		}
	}
	return report.PutCondition(conditions, of, &next)
}

// countsOnly reports whether s differs from was only in counts. Such a status may be written later.
func countsOnly(was, s appsv1alpha1.EphemeralJobStatus) bool {
	s.Matches, s.Succeeded, s.Failed, s.Running, s.Waiting = was.Matches, was.Succeeded, was.Failed, was.Running, was.Waiting
	return apiequality.Semantic.DeepEqual(was, s)
}
