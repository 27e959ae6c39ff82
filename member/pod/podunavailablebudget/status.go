package podunavailablebudget

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// status returns the new status, and events about the budget.
func status(o observed, p planned, now time.Time) (policyv1beta1.PodUnavailableBudgetStatus, []event.Event) {
	s := policyv1beta1.PodUnavailableBudgetStatus{
		ObservedGeneration: o.budget.Generation, DisruptedPods: p.disrupted, UnavailablePods: p.unavailable,
		UnavailableAllowed: p.allowed, CurrentAvailable: p.current, DesiredAvailable: p.desired, TotalReplicas: p.total,
	}
	ready := report.Ready("pods are counted, and as many stay available as the spec wants, as far as requests for pods decide it")
	if p.fault != nil {
		ready = report.Stalled(report.Failure{Reason: ReasonNotCounted, Message: fmt.Sprintf("how many pods there should be is not known: %v", p.fault)})
	}
	s.Conditions = report.SetReadiness(o.budget.Status.Conditions, ready, o.budget.Generation, now)
	var events []event.Event
	if was := o.budget.Status; len(o.pods) == 0 && (was.ObservedGeneration != s.ObservedGeneration || was.CurrentAvailable > 0) {
		events = append(events, event.Normal(ReasonNoPods, actionCount, "there are no pods to protect"))
	}
	if p.fault != nil {
		events = append(events, event.Warning(ReasonNotCounted, actionCount, "how many pods there should be is not known, so no pod may become "+
			"unavailable: %v", p.fault))
	}
	if len(p.notDeleted) > 0 {
		events = append(events, event.Warning(ReasonNotDeleted, actionCount, "%d pods may be deleted or evicted since %s and are not: %s; they count as "+
			"available again", len(p.notDeleted), deletionTime, event.Names(p.notDeleted)))
	}
	return s, events
}

// judgesAlike reports whether two statuses lead to the same judgments. They differ at most in the number of available pods, and the write of
// that may wait.
func judgesAlike(was, is *policyv1beta1.PodUnavailableBudgetStatus) bool {
	counted := *was
	counted.CurrentAvailable = is.CurrentAvailable
	return satisfied(was) == satisfied(is) && equality.Semantic.DeepEqual(&counted, is)
}
