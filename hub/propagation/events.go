package propagation

import (
	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Event reasons for Propagations and ClusterPropagations.
const (
	// eventPlaced means that every object has its row in every cluster. eventNotPlaced means that some don't. Its note has the reason and the
	// message of condition Placed.
	eventPlaced    = "Placed"
	eventNotPlaced = "NotPlaced"
	// eventHealthy means that all members report every object as healthy. eventUnhealthy means that a member reports a failure or is silent, or
	// that unhealthy objects are in suspended clusters.
	eventHealthy   = "Healthy"
	eventUnhealthy = "Unhealthy"
	// eventWithdrawing means that the source is being deleted. The note names the clusters that still hold objects.
	eventWithdrawing = "WithdrawingObjects"
)

const actionPlace = "Place"

// changed returns how a change of status is reported. It may wait unless observedGeneration, or the status or reason of a condition, changes.
func changed(before, after fleetv1alpha1.PropagationStatus) placement.Change {
	transitions := placement.Transitions(report.ConditionForm(0), before.Conditions, after.Conditions)
	c := placement.Change{Collect: placement.Wait(before.ObservedGeneration == after.ObservedGeneration && len(transitions) == 0)}
	for _, t := range transitions {
		ok := t.To.Status == corev1.ConditionTrue
		switch {
		case t.To.Status == "":
		case t.Type == fleetv1alpha1.PropagationWithdrawing:
			c.Events = append(c.Events, event.Normal(eventWithdrawing, "Withdraw", "%s", t.To.Message))
		case t.To.Reason == reasonDeleting, t.To.Reason == reasonWaiting, t.To.Reason == reasonProgressing, t.To.Reason == reasonDividing:
		case t.Type == fleetv1alpha1.PropagationPlaced && ok:
			c.Events = append(c.Events, event.Normal(eventPlaced, actionPlace, "objects placed: %d, clusters: %d", after.Objects, after.Clusters))
		case t.Type == fleetv1alpha1.PropagationPlaced:
			c.Events = append(c.Events, event.Warning(eventNotPlaced, actionPlace, "%s: %s", t.To.Reason, t.To.Message))
		case t.Type == fleetv1alpha1.PropagationHealthy && ok:
			c.Events = append(c.Events, event.Normal(eventHealthy, actionPlace, "all places are healthy: %d", after.Healthy))
		case t.Type == fleetv1alpha1.PropagationHealthy:
			c.Events = append(c.Events, event.Warning(eventUnhealthy, actionPlace, "%s: %s", t.To.Reason, t.To.Message))
		}
	}
	return c
}
