package uniteddeployment

import (
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
)

// Reasons of events on a UnitedDeployment of a hub.
const (
	// EventBlocked means that a subset is not as desired. The note says where and why.
	EventBlocked = "SubsetBlocked"
	// EventPlaced means that every replica is where it should run.
	EventPlaced = "ReplicasPlaced"
	// EventUnplaced means that replicas are being moved, or can't be placed.
	EventUnplaced = "ReplicasMoving"
	// EventWithdrawing means that the object is being deleted. The note names the clusters that still hold it.
	EventWithdrawing = "WithdrawingSlices"
)

// eventsFor returns the events for a change of status: one for each condition whose status or reason changed. replicas is the number in the
// spec.
func eventsFor(replicas int32, before, after appsv1beta1.UnitedDeploymentStatus) []event.Event {
	var out []event.Event
	changed := func(t appsv1beta1.UnitedDeploymentConditionType) (*appsv1beta1.UnitedDeploymentCondition, bool) {
		is, was := find(after.Conditions, t), find(before.Conditions, t)
		return is, is != nil && (was == nil || was.Status != is.Status || was.Reason != is.Reason)
	}
	if c, ok := changed(appsv1beta1.SubsetFailure); ok && c.Status == corev1.ConditionTrue {
		out = append(out, event.Warning(EventBlocked, "Place", "%s: %s", c.Reason, c.Message))
	}
	if c, ok := changed(appsv1beta1.UnitedDeploymentPlaced); ok {
		switch {
		case c.Status == corev1.ConditionTrue:
			out = append(out, event.Normal(EventPlaced, "Place", "all of %d replicas are placed", replicas))
		case c.Reason == reasonDeleting:
			out = append(out, event.Normal(EventWithdrawing, "Withdraw", "%s", c.Message))
		default:
			out = append(out, event.Normal(EventUnplaced, "Place", "%s: %s", c.Reason, c.Message))
		}
	}
	return out
}

func find(list []appsv1beta1.UnitedDeploymentCondition, t appsv1beta1.UnitedDeploymentConditionType) *appsv1beta1.UnitedDeploymentCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}
