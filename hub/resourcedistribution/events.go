package resourcedistribution

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Reasons of events on a ResourceDistribution of a hub. Events for failures have the type of the condition as their reason.
const (
	// eventDistributed means that all clusters have all copies.
	eventDistributed = "Distributed"
	// eventWithdrawing means that the object is being deleted. The note names the clusters that still hold it.
	eventWithdrawing = "WithdrawingCopies"
)

const actionDistribute = "Distribute"

// changed returns how a change of status is reported, for an object with that generation that distributes what. It may wait if no failure
// starts, ends or changes its reason, and the generation was already observed.
func changed(generation int64, what string, before, after appsv1beta1.ResourceDistributionStatus) placement.Change {
	var events []event.Event
	mayWait, form := before.ObservedGeneration == after.ObservedGeneration, report.DistributionForm()
	for _, t := range placement.Transitions(form, report.ButReadiness(before.Conditions, form), report.ButReadiness(after.Conditions, form)) {
		mayWait = mayWait && !t.EverTrue()
		switch {
		case t.To.Status != corev1.ConditionTrue:
		case t.Type == string(appsv1beta1.ResourceDistributionWithdrawing):
			events = append(events, event.Normal(eventWithdrawing, "Withdraw", "%s", t.To.Message))
		default:
			events = append(events, event.Warning(t.Type, actionDistribute, "%s: %s", t.To.Reason, t.To.Message))
		}
	}
	if complete(after, generation) && !complete(before, generation) {
		events = append(events, event.Normal(eventDistributed, actionDistribute, "distributed to namespaces: %d, clusters: %d, object: %s",
			after.Succeeded, after.SelectedClusters, what))
	}
	return placement.Change{Collect: placement.Wait(mayWait), Events: events}
}

// complete reports whether all clusters have all copies of a generation.
func complete(s appsv1beta1.ResourceDistributionStatus, generation int64) bool {
	for _, c := range report.ButReadiness(s.Conditions, report.DistributionForm()) {
		if c.Status == metav1.ConditionTrue {
			return false
		}
	}
	return s.ObservedGeneration == generation && s.Failed == 0 && s.StaleClusters == 0 && s.SelectedClusters > 0
}

func find(
	all []appsv1beta1.ResourceDistributionCondition, kind appsv1beta1.ResourceDistributionConditionType,
) *appsv1beta1.ResourceDistributionCondition {
	for i := range all {
		if all[i].Type == kind {
			return &all[i]
		}
	}
	return nil
}
