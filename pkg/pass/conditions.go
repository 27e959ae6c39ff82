package pass

import (
	"slices"
	"time"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/condition"
	"github.com/flotilla-io/flotilla/pkg/event"
)

// Conditions are those of a StatefulSet or DaemonSet after a pass that had these failures: with the number of pods, with their
// update, and with pods of others. Each is there while it fails. The events tell of what has just begun to fail.
func Conditions(
	was []appsv1beta1.WorkloadCondition, scale, update, overlap condition.Failure, now time.Time,
) ([]appsv1beta1.WorkloadCondition, []event.Event) {
	is, events := was, []event.Event(nil)
	for _, c := range []struct {
		kind    appsv1beta1.WorkloadConditionType
		failure condition.Failure
		tell    func(why string) event.Event
	}{
		{appsv1beta1.WorkloadFailedCreatePod, scale, FailedScale},
		{appsv1beta1.WorkloadFailedUpdatePod, update, FailedUpdate},
		{appsv1beta1.WorkloadSelectorOverlap, overlap, Overlap},
	} {
		meant := func(w appsv1beta1.WorkloadCondition) bool { return w.Type == c.kind }
		var before *condition.ConditionEntry
		if i := slices.IndexFunc(was, meant); i >= 0 {
			before = &condition.ConditionEntry{Status: was[i].Status, Reason: was[i].Reason, Message: was[i].Message, Turned: was[i].LastTransitionTime}
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
		is = condition.PutCondition(is, meant, next)
	}
	return is, events
}
