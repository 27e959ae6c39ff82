package propagation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Reasons of events on Propagations and ClusterPropagations.
const (
	// EventPlaced means that every object has its row in every cluster. EventNotPlaced means that some don't. Its note has the reason of
	// condition Placed.
	EventPlaced    = "Placed"
	EventNotPlaced = "NotPlaced"
	// EventHealthy means that all members report every object as healthy. EventUnhealthy means that a member reports a failure or is silent.
	EventHealthy   = "Healthy"
	EventUnhealthy = "Unhealthy"
	// EventWithdrawing means that the source is being deleted. The note names the clusters that still hold objects.
	EventWithdrawing = "WithdrawingObjects"
)

const actionPlace = "Place"

// eventsFor returns the events for a change of status.
func eventsFor(before, after fleetv1alpha1.PropagationStatus) []event.Event {
	var out []event.Event
	for _, c := range report.ButReadiness(after.Conditions, report.ConditionForm(0)) {
		was := report.GetCondition(before.Conditions, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason {
			continue
		}
		ok := c.Status == metav1.ConditionTrue
		switch {
		case c.Type == fleetv1alpha1.PropagationWithdrawing:
			out = append(out, event.Normal(EventWithdrawing, "Withdraw", "%s", c.Message))
		case c.Reason == reasonDeleting, c.Reason == reasonWaiting, c.Reason == reasonProgressing, c.Reason == reasonDividing:
		case c.Type == fleetv1alpha1.PropagationPlaced && ok:
			out = append(out, event.Normal(EventPlaced, actionPlace, "%d objects have their rows in %d clusters", after.Objects, after.Clusters))
		case c.Type == fleetv1alpha1.PropagationPlaced:
			out = append(out, event.Warning(EventNotPlaced, actionPlace, "%s: %s", c.Reason, c.Message))
		case ok:
			out = append(out, event.Normal(EventHealthy, actionPlace, "all of %d places are healthy", after.Healthy))
		default:
			out = append(out, event.Warning(EventUnhealthy, actionPlace, "%s: %s", c.Reason, c.Message))
		}
	}
	return out
}
