package podcontrol

import (
	"slices"
	"time"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// ConditionForm is how a kind represents the conditions that report failures.
type ConditionForm[C any] struct {
	// Scale, Update, Overlap and PVC are the types of the conditions.
	Scale, Update, Overlap, PVC string
	// Type and Entry read a condition, New returns one.
	Type  func(C) string
	Entry func(C) report.ConditionEntry
	New   func(conditionType string, e report.ConditionEntry) C
}

// WorkloadConditions is the form of StatefulSet and DaemonSet.
func WorkloadConditions() ConditionForm[appsv1beta1.WorkloadCondition] {
	type condition = appsv1beta1.WorkloadCondition
	return ConditionForm[condition]{
		Scale: string(appsv1beta1.WorkloadFailedCreatePod), Update: string(appsv1beta1.WorkloadFailedUpdatePod),
		Overlap: string(appsv1beta1.WorkloadSelectorOverlap), PVC: string(appsv1beta1.WorkloadPVCTerminating),
		Type: func(c condition) string { return string(c.Type) },
		Entry: func(c condition) report.ConditionEntry {
			return report.ConditionEntry{Status: c.Status, Reason: c.Reason, Message: c.Message, Turned: c.LastTransitionTime}
		},
		New: func(t string, e report.ConditionEntry) condition {
			return condition{
				Type: appsv1beta1.WorkloadConditionType(t), Status: e.Status, Reason: e.Reason, Message: e.Message,
				LastTransitionTime: e.Turned,
			}
		},
	}
}

// Conditions returns the conditions after a reconcile with these failures: to scale, to update, an overlap of selectors, and PVCs
// that are being deleted. Each is present while it fails. The events report failures that are new.
func Conditions[C any](
	old []C, form ConditionForm[C], scale, update, overlap, pvc report.Failure, now time.Time,
) ([]C, []event.Event) {
	current, events := old, []event.Event(nil)
	for _, c := range []struct {
		kind    string
		failure report.Failure
		begun   func(why string) event.Event
	}{
		{form.Scale, scale, FailedScale},
		{form.Update, update, FailedUpdate},
		{form.Overlap, overlap, Overlap},
		{form.PVC, pvc, PVCTerminating},
	} {
		matches := func(x C) bool { return form.Type(x) == c.kind }
		var before *report.ConditionEntry
		if i := slices.IndexFunc(old, matches); i >= 0 {
			before = new(form.Entry(old[i]))
		}
		if c.failure.IsNew(before) {
			events = append(events, c.begun(c.failure.Message))
		}
		var next *C
		if e := c.failure.After(before, now); e != nil {
			next = new(form.New(c.kind, *e))
		}
		current = report.PutCondition(current, matches, next)
	}
	return current, events
}
