package workloadspread

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Reasons of events on a WorkloadSpread of a hub.
const (
	// EventInactive means that nothing is placed. The note says why.
	EventInactive = "NotPlaced"
	// EventBlocked means that a subset is not as desired. The note says where and why.
	EventBlocked = "SubsetBlocked"
	// EventPlaced means that every replica is where it should run.
	EventPlaced = "ReplicasPlaced"
	// EventMoving means that replicas are being moved, or can't be placed.
	EventMoving = "ReplicasMoving"
	// EventWithdrawing means that the object is being deleted. The note names the clusters that still hold its slices.
	EventWithdrawing = "WithdrawingSlices"
	// EventUnschedulable means that a cluster could not schedule pods, which go to the next one.
	EventUnschedulable = "ClusterUnschedulable"
	// EventRecovered means that the cluster gets new pods again.
	EventRecovered = "RecoverSchedulable"
)

// eventsFor returns the events for a change of status: one for each condition whose status or reason changed.
func eventsFor(before, after appsv1beta1.WorkloadSpreadStatus) []event.Event {
	var out []event.Event
	changed := func(was, is []metav1.Condition, kind string) (*metav1.Condition, bool) {
		now, then := report.GetCondition(is, kind), report.GetCondition(was, kind)
		return now, now != nil && (then == nil || then.Status != now.Status || then.Reason != now.Reason)
	}
	if c, ok := changed(before.Conditions, after.Conditions, appsv1beta1.WorkloadSpreadActive); ok && c.Status == metav1.ConditionFalse {
		if c.Reason == reasonDeleting {
			return append(out, event.Normal(EventWithdrawing, "Withdraw", "%s", c.Message))
		}
		return append(out, event.Warning(EventInactive, "Place", "%s: %s", c.Reason, c.Message))
	}
	if c, ok := changed(before.Conditions, after.Conditions, appsv1beta1.WorkloadSpreadFailure); ok && c.Status == metav1.ConditionTrue {
		out = append(out, event.Warning(EventBlocked, "Place", "%s: %s", c.Reason, c.Message))
	}
	if c, ok := changed(before.Conditions, after.Conditions, appsv1beta1.WorkloadSpreadPlaced); ok {
		if c.Status == metav1.ConditionTrue {
			out = append(out, event.Normal(EventPlaced, "Place", "every replica is placed"))
		} else {
			out = append(out, event.Normal(EventMoving, "Place", "%s: %s", c.Reason, c.Message))
		}
	}
	for _, line := range after.SubsetStatuses {
		var was []metav1.Condition
		for _, l := range before.SubsetStatuses {
			if l.Name == line.Name && l.Cluster == line.Cluster {
				was = l.Conditions
			}
		}
		c, ok := changed(was, line.Conditions, appsv1beta1.WorkloadSpreadSubsetSchedulable)
		switch {
		case !ok || c.Reason == reasonSufficient:
		case c.Status == metav1.ConditionFalse:
			out = append(out, event.Normal(EventUnschedulable, "Place", "subset %s in %s: %s", line.Name, line.Cluster, c.Message))
		default:
			out = append(out, event.Normal(EventRecovered, "Place", "subset %s in %s: %s", line.Name, line.Cluster, c.Message))
		}
	}
	return out
}
