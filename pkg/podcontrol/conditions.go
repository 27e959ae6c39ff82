package podcontrol

import (
	"slices"
	"time"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Conditions are those of a StatefulSet or DaemonSet after a reconcile that had these failures: with the number of pods, with their
// update, and with pods of others. Each is there while it fails. The events tell of what has just begun to fail.
func Conditions(
	was []appsv1beta1.WorkloadCondition, scale, update, overlap report.Failure, now time.Time,
) ([]appsv1beta1.WorkloadCondition, []event.Event) {
	is, events := was, []event.Event(nil)
	for _, c := range []struct {
		kind    appsv1beta1.WorkloadConditionType
		failure report.Failure
		tell    func(why string) event.Event
	}{
		{appsv1beta1.WorkloadFailedCreatePod, scale, FailedScale},
		{appsv1beta1.WorkloadFailedUpdatePod, update, FailedUpdate},
		{appsv1beta1.WorkloadSelectorOverlap, overlap, Overlap},
	} {
		meant := func(w appsv1beta1.WorkloadCondition) bool { return w.Type == c.kind }
		var before *report.ConditionEntry
		if i := slices.IndexFunc(was, meant); i >= 0 {
			before = &report.ConditionEntry{Status: was[i].Status, Reason: was[i].Reason, Message: was[i].Message, Turned: was[i].LastTransitionTime}
		}
		if c.failure.News(before) {
			events = append(events, c.tell(c.failure.Message))
		}
		var next *appsv1beta1.WorkloadCondition
		if e := c.failure.After(before, now); e != nil {
			next = &appsv1beta1.WorkloadCondition{
				Type: c.kind, Status: e.Status, Reason: e.Reason, Message: e.Message, LastTransitionTime: e.Turned,
			}
		}
		is = report.PutCondition(is, meant, next)
	}
	return is, events
}
