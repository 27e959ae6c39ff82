package workloadspread

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Reasons of events on a WorkloadSpread of a hub.
const (
	// eventInactive means that nothing is placed. The note says why.
	eventInactive = "NotPlaced"
	// eventBlocked means that a subset is not as desired. The note says where and why.
	eventBlocked = "SubsetBlocked"
	// eventPlaced means that every replica is where it should run.
	eventPlaced = "ReplicasPlaced"
	// eventMoving means that replicas are being moved, or can't be placed.
	eventMoving = "ReplicasMoving"
	// eventWithdrawing means that the object is being deleted. The note names the clusters that still hold its slices.
	eventWithdrawing = "WithdrawingSlices"
	// eventUnschedulable means that a cluster could not schedule pods, which go to the next one.
	eventUnschedulable = "ClusterUnschedulable"
	// eventRecovered means that the cluster gets new pods again.
	eventRecovered = "RecoverSchedulable"
)

// changed returns how a change of status is reported. It may wait if no condition changes its status or reason, and the generation was already
// observed.
func changed(before, after appsv1beta1.WorkloadSpreadStatus) placement.Change {
	form := report.ConditionForm(0)
	transitions := placement.Transitions(form, before.Conditions, after.Conditions)
	subsets := placement.Transitions(form, schedulable(before), schedulable(after))
	c := placement.Change{Collect: placement.Wait(before.ObservedGeneration == after.ObservedGeneration && len(transitions)+len(subsets) == 0)}
	for _, t := range transitions {
		ok := t.To.Status == corev1.ConditionTrue
		switch {
		case t.To.Status == "":
		case t.Type == appsv1beta1.WorkloadSpreadActive && !ok && t.To.Reason == reasonDeleting:
			c.Events = []event.Event{event.Normal(eventWithdrawing, "Withdraw", "%s", t.To.Message)}
			return c
		case t.Type == appsv1beta1.WorkloadSpreadActive && !ok:
			c.Events = []event.Event{event.Warning(eventInactive, "Place", "%s: %s", t.To.Reason, t.To.Message)}
			return c
		case t.Type == appsv1beta1.WorkloadSpreadFailure && ok:
			c.Events = append(c.Events, event.Warning(eventBlocked, "Place", "%s: %s", t.To.Reason, t.To.Message))
		case t.Type == appsv1beta1.WorkloadSpreadPlaced && ok:
			c.Events = append(c.Events, event.Normal(eventPlaced, "Place", "every replica is placed"))
		case t.Type == appsv1beta1.WorkloadSpreadPlaced:
			c.Events = append(c.Events, event.Normal(eventMoving, "Place", "%s: %s", t.To.Reason, t.To.Message))
		}
	}
	for _, t := range subsets {
		switch {
		case t.To.Status == "", t.To.Reason == reasonSufficient:
		case t.To.Status == corev1.ConditionFalse:
			c.Events = append(c.Events, event.Normal(eventUnschedulable, "Place", "%s: %s", t.Type, t.To.Message))
		default:
			c.Events = append(c.Events, event.Normal(eventRecovered, "Place", "%s: %s", t.Type, t.To.Message))
		}
	}
	return c
}

// schedulable returns the condition of each subset in each cluster, with the two names as its type.
func schedulable(s appsv1beta1.WorkloadSpreadStatus) []metav1.Condition {
	var out []metav1.Condition
	for _, line := range s.SubsetStatuses {
		if c := report.GetCondition(line.Conditions, appsv1beta1.WorkloadSpreadSubsetSchedulable); c != nil {
			named := *c
			named.Type = fmt.Sprintf("subset %s in %s", line.Name, line.Cluster)
			out = append(out, named)
		}
	}
	return out
}
