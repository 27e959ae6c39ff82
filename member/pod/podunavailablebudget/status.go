package podunavailablebudget

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// status returns the new status, and events about the budget.
func status(o observed, p planned, now time.Time) (policyv1beta1.PodUnavailableBudgetStatus, []event.Event) {
	s := policyv1beta1.PodUnavailableBudgetStatus{
		ObservedGeneration: o.budget.Generation, DisruptedPods: p.disrupted, UnavailablePods: p.unavailable,
		UnavailableAllowed: p.allowed, CurrentAvailable: p.current, DesiredAvailable: p.desired, TotalReplicas: p.total,
	}
	ready := report.Ready("pods are counted, and requests that would leave too few of them available are rejected")
	if p.fault != nil {
		ready = report.Stalled(report.Failure{Reason: reasonNotCounted, Message: fmt.Sprintf("the desired number of pods is unknown: %v", p.fault)})
	}
	s.Conditions = report.SetReadiness(o.budget.Status.Conditions, ready, o.budget.Generation, now)
	var events []event.Event
	if previous := o.budget.Status; len(o.pods) == 0 && (previous.ObservedGeneration != s.ObservedGeneration || previous.CurrentAvailable > 0) {
		events = append(events, event.Normal(reasonNoPods, actionCount, "there are no pods to protect"))
	}
	if p.fault != nil {
		events = append(events, event.Warning(reasonNotCounted, actionCount, "the desired number of pods is unknown, so no pod may become "+
			"unavailable: %v", p.fault))
	}
	if len(p.notDeleted) > 0 {
		events = append(events, event.Warning(ReasonNotDeleted, actionCount, "%d pod(s) were allowed to be deleted or evicted %s ago and still exist: %s; they "+
			"count as available again", len(p.notDeleted), deletionTime, event.Names(p.notDeleted)))
	}
	return s, events
}

// judgesAlike reports whether two statuses lead to the same judgments. They differ at most in the number of available pods, and the write of
// that may wait.
func judgesAlike(before, after *policyv1beta1.PodUnavailableBudgetStatus) bool {
	counted := *before
	counted.CurrentAvailable = after.CurrentAvailable
	return isSatisfied(before) == isSatisfied(after) && equality.Semantic.DeepEqual(&counted, after)
}
