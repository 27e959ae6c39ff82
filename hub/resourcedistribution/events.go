package resourcedistribution

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Reasons of events on a ResourceDistribution of a hub. Events for failures have the type of the condition as their reason.
const (
	// EventDistributed means that all clusters have all copies.
	EventDistributed = "Distributed"
	// EventWithdrawing means that the object is being deleted. The note names the clusters that still hold it.
	EventWithdrawing = "WithdrawingCopies"
)

const actionDistribute = "Distribute"

// eventsFor returns the events for a change of status, for an object with that generation.
func eventsFor(generation int64, what string, before, after appsv1beta1.ResourceDistributionStatus) []event.Event {
	var out []event.Event
	for _, c := range report.ButReadiness(after.Conditions, report.DistributionForm()) {
		was := find(before.Conditions, c.Type)
		if c.Status != metav1.ConditionTrue || was != nil && was.Status == c.Status && was.Reason == c.Reason {
			continue
		}
		if c.Type == appsv1beta1.ResourceDistributionWithdrawing {
			out = append(out, event.Normal(EventWithdrawing, "Withdraw", "%s", c.Message))
		} else {
			out = append(out, event.Warning(string(c.Type), actionDistribute, "%s: %s", c.Reason, c.Message))
		}
	}
	if complete(after, generation) && !complete(before, generation) {
		out = append(out, event.Normal(EventDistributed, actionDistribute, "%d namespaces of %d clusters have %s",
			after.Succeeded, after.SelectedClusters, what))
	}
	return out
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
