package ephemeraljob

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

type conditionType = appsv1alpha1.EphemeralJobConditionType

// status returns the status after a reconcile, and its events. It counts the pods as they were observed. The next reconcile counts what this
// one changed. The function is pure.
func status(o observed, p planned, a applied, now time.Time) (appsv1alpha1.EphemeralJobStatus, []event.Event) {
	previous := &o.job.Status
	s := *previous.DeepCopy()
	at := metav1.NewTime(now).Rfc3339Copy()
	s.Running, s.Waiting = int32(p.running), int32(p.waiting) //nolint:gosec // No cluster has so many pods.
	if finished(o.job) {
		// Counted pods may be gone by now, and containers that still run may finish.
		s.Succeeded = max(s.Succeeded, int32(p.succeeded)) //nolint:gosec // Likewise.
		s.Failed = max(s.Failed, int32(p.failed))          //nolint:gosec // Likewise.
		if s.CompletionTime == nil {
			s.CompletionTime = &at
		}
		if findCondition(s.Conditions, keys.ConditionReady) == nil { // OpenKruise finished it.
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
		events = append(events, event.Normal(reasonContainersAdded, actionRun, "added the containers to %d pod(s): %s", len(a.added), event.Names(a.added)))
	}
	if findCondition(s.Conditions, appsv1alpha1.EphemeralJobInitialized) == nil {
		s.Conditions = setCondition(s.Conditions, appsv1alpha1.EphemeralJobInitialized, initialized, "", at)
	}
	s.Conditions = setCondition(s.Conditions, appsv1alpha1.EphemeralJobMatchedEmpty, ifMessage(p.empty, matchEmpty), p.empty, at)
	reason, message := faultOf(p, a)
	s.Conditions = setCondition(s.Conditions, appsv1alpha1.EphemeralJobConditionError, reason, message, at)
	if after := findCondition(s.Conditions, appsv1alpha1.EphemeralJobConditionError); after != nil {
		before := findCondition(previous.Conditions, appsv1alpha1.EphemeralJobConditionError)
		if a.Err() != nil || before == nil || before.Reason != after.Reason || before.Message != after.Message {
			events = append(events, event.Warning(reason, actionRun, "%s", message))
		}
	}
	if e := p.ending; e != nil {
		s.CompletionTime = &at
		s.Conditions = setCondition(s.Conditions, e.condition, e.reason, e.why, at)
		newEvent := event.Normal
		if e.phase == appsv1alpha1.EphemeralJobFailed {
			newEvent = event.Warning
		}
		events = append(events, newEvent(e.reason, actionRun, "%s", e.why))
	}
	s.Conditions = report.PutReadiness(s.Conditions, conditionForm(), readiness(&p, &a), now)
	return s, events
}

// readiness returns whether a job has done its work. Pods for which the containers are invalid are left out. Other rejections are retried.
func readiness(p *planned, a *applied) report.Readiness {
	switch {
	case p.invalidSpec != "":
		return report.Stalled(report.Failure{Reason: reasonInvalidSpec, Message: p.invalidSpec})
	case p.ending != nil && p.ending.phase == appsv1alpha1.EphemeralJobFailed:
		return report.Stalled(report.Failure{Reason: p.ending.reason, Message: p.ending.why})
	case p.ending != nil:
		return report.Ready(p.ending.why)
	case a.Err() != nil:
		return report.Retrying(report.WriteFailure(a.Err()))
	case p.phase == appsv1alpha1.EphemeralJobPause:
		return report.Reconciling(report.ReasonPaused, "no pods get containers while the job is paused")
	case p.empty != "":
		return report.Reconciling(matchEmpty, p.empty)
	}
	return report.Reconciling(report.ReasonProgressing, "containers are running or still to be added to pods")
}

// ended returns the readiness of a finished job.
func ended(s *appsv1alpha1.EphemeralJobStatus) report.Readiness {
	if s.Phase != appsv1alpha1.EphemeralJobFailed {
		return report.Ready("the containers have ended in all pods")
	}
	return report.StalledAs(s.Conditions, conditionForm(), string(appsv1alpha1.EphemeralJobConditionFailed),
		report.Failure{Reason: reasonContainersFailed, Message: "containers have failed"})
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
		return reasonInvalidSpec, p.invalidSpec
	case a.Err() != nil:
		return reasonCreateFailed, a.Err().Error()
	case p.refusal != "":
		return reasonCreateFailed, p.refusal
	}
	return "", ""
}

// ifMessage returns reason if there is a message, otherwise "".
func ifMessage(message, reason string) string {
	if message == "" {
		return ""
	}
	return reason
}

// findCondition returns the condition of a type, or nil.
func findCondition(conditions []appsv1alpha1.EphemeralJobCondition, typ conditionType) *appsv1alpha1.EphemeralJobCondition {
	for i := range conditions {
		if conditions[i].Type == typ {
			return &conditions[i]
		}
	}
	return nil
}

// setCondition returns the conditions with one of that type set to True. Without a reason, it removes the condition.
func setCondition(
	conditions []appsv1alpha1.EphemeralJobCondition, typ conditionType, reason, message string, at metav1.Time,
) []appsv1alpha1.EphemeralJobCondition {
	sameType := func(c appsv1alpha1.EphemeralJobCondition) bool { return c.Type == typ }
	if reason == "" {
		return report.PutCondition(conditions, sameType, nil)
	}
	next := appsv1alpha1.EphemeralJobCondition{
		Type: typ, Status: corev1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at, Reason: reason, Message: report.Truncate(message),
	}
	if before := findCondition(conditions, typ); before != nil {
		if before.Status == next.Status {
			next.LastTransitionTime = before.LastTransitionTime
		}
		if before.Status == next.Status && before.Reason == next.Reason && before.Message == next.Message {
			next.LastProbeTime = before.LastProbeTime
		}
	}
	return report.PutCondition(conditions, sameType, &next)
}

// countsOnly reports whether s differs from was only in counts. Such a status may be written later.
func countsOnly(before, s appsv1alpha1.EphemeralJobStatus) bool {
	s.Matches, s.Succeeded, s.Failed, s.Running, s.Waiting = before.Matches, before.Succeeded, before.Failed, before.Running, before.Waiting
	return apiequality.Semantic.DeepEqual(before, s)
}
