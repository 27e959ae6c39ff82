package workloadspread

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// status returns the new status, and the events about the WorkloadSpread.
func status(o observed, p planned, now time.Time) (appsv1beta1.WorkloadSpreadStatus, []event.Event) {
	s := *o.ws.Status.DeepCopy()
	var events []event.Event
	c := metav1.Condition{
		Type: appsv1beta1.WorkloadSpreadActive, Status: metav1.ConditionTrue, Reason: reasonSpreading,
		Message: "new pods are assigned to subsets", ObservedGeneration: o.ws.Generation,
	}
	if p.inactive != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, p.inactive.reason, p.inactive.message
		previous := report.GetCondition(o.ws.Status.Conditions, c.Type)
		if p.inactive.reason != reasonTargetGone && (previous == nil || previous.Reason != c.Reason) {
			events = append(events, event.Warning(c.Reason, actionCount, "%s", c.Message))
		}
	}
	s.Conditions = report.SetCondition(s.Conditions, c, now)
	s.Conditions = report.SetReadiness(s.Conditions, readiness(p), o.ws.Generation, now)
	s.ObservedGeneration = o.ws.Generation
	if p.inactive != nil { // Keep what is known: pods admitted meanwhile are counted against it.
		return s, events
	}
	s.SubsetStatuses, s.VersionedSubsetStatuses = nil, map[string]appsv1beta1.WorkloadSpreadSubsetStatuses{}
	total := make([]appsv1beta1.WorkloadSpreadSubsetStatus, len(o.ws.Spec.Subsets))
	for i := range o.ws.Spec.Subsets {
		total[i] = p.subsetStatus(o, i, now)
	}
	for _, version := range p.versionsOf(o) {
		all := make([]appsv1beta1.WorkloadSpreadSubsetStatus, len(total))
		for i := range all {
			all[i] = appsv1beta1.WorkloadSpreadSubsetStatus{
				Name: total[i].Name, Conditions: total[i].Conditions, MissingReplicas: p.missingReplicas(o, version, i),
			}
			if bySubset := p.subsets[version]; bySubset != nil {
				all[i].Replicas = toInt32(len(bySubset[i]))
			}
			if bySubset := p.creating[version]; bySubset != nil {
				all[i].CreatingPods = toMetaTimes(bySubset[i])
			}
		}
		s.VersionedSubsetStatuses[version] = all
	}
	s.SubsetStatuses = total
	if len(p.lost) > 0 {
		events = append(events, event.Warning(reasonCreatePodFailed, actionCount,
			"%d pod(s) were admitted but not created within %s, and their places are free again: %s", len(p.lost), creationTimeout, event.Names(p.lost)))
	}
	for _, name := range p.recovered {
		events = append(events, event.Normal(reasonRecovered, actionSchedule, "subset %s gets new pods again after %s", name, recovery))
	}
	return s, events
}

// readiness returns whether new pods are assigned to subsets. Whether the pods are available is reported by the workload's status. A target
// may be created after its WorkloadSpread, and the webhook may not be set up yet.
func readiness(p planned) report.Readiness {
	if p.inactive == nil {
		return report.Ready("new pods are assigned to subsets")
	}
	switch p.inactive.reason {
	case reasonNotAllowed, reasonTargetTaken, reasonTargetDenied:
		return report.Stalled(report.Failure{Reason: p.inactive.reason, Message: p.inactive.message})
	}
	return report.Reconciling(p.inactive.reason, p.inactive.message)
}

// subsetStatus returns the status of a subset with the pods of all versions, which together determine how many are missing.
func (p *planned) subsetStatus(o observed, i int, now time.Time) appsv1beta1.WorkloadSpreadSubsetStatus {
	name := o.ws.Spec.Subsets[i].Name
	out := appsv1beta1.WorkloadSpreadSubsetStatus{Name: name, Conditions: p.conditions(o, i, now)}
	creating := map[string]time.Time{}
	for _, bySubset := range p.subsets {
		out.Replicas += toInt32(len(bySubset[i]))
	}
	for _, bySubset := range p.creating {
		maps.Copy(creating, bySubset[i])
	}
	if _, slice := o.ws.Annotations[keys.FleetRowUID]; slice && i == len(o.ws.Spec.Subsets)-1 { // Pods of other subsets go to the next subset first.
		out.UnschedulableReplicas = toInt32(len(p.unschedulablePods(o, i, now)))
	}
	out.CreatingPods = toMetaTimes(creating)
	if out.MissingReplicas = limit(&o.ws.Spec.Subsets[i], o.total); out.MissingReplicas != unlimited {
		out.MissingReplicas = max(out.MissingReplicas-out.Replicas-toInt32(len(creating)), 0)
	}
	return out
}

// conditions returns the conditions of a subset.
func (p *planned) conditions(o observed, i int, now time.Time) []metav1.Condition {
	if o.ws.Spec.ScheduleStrategy.Type != appsv1beta1.AdaptiveWorkloadSpread {
		return nil
	}
	c := metav1.Condition{
		Type: appsv1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionTrue, Reason: reasonSufficient,
		Message: "new pods are sent here", ObservedGeneration: o.ws.Generation,
	}
	if since, closed := p.unschedulable[i]; closed {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonUnschedulable, "a pod could not be scheduled: new ones go to the next subset"
		now = since
	}
	var previous []metav1.Condition
	if st := statusOf(o.ws.Status.SubsetStatuses, o.ws.Spec.Subsets[i].Name); st != nil {
		previous = st.Conditions
	}
	if old := report.GetCondition(previous, c.Type); old != nil && old.Status == c.Status && p.reopened(i, old.LastTransitionTime.Time) {
		previous = nil // The subset was closed before, and is now closed again.
	}
	return report.SetCondition(previous, c, now)
}

// reopened reports whether a subset was closed again after the given time.
func (p *planned) reopened(i int, since time.Time) bool {
	closed, ok := p.unschedulable[i]
	return ok && closed.After(since)
}

// toMetaTimes converts the times of places. It returns nil if there are none.
func toMetaTimes(ids map[string]time.Time) map[string]metav1.Time {
	if len(ids) == 0 {
		return nil
	}
	out := make(map[string]metav1.Time, len(ids))
	for id, at := range ids {
		out[id] = metav1.NewTime(at)
	}
	return out
}

// roomOf returns a copy of the status with only what determines the room in subsets. Writes of the rest may wait.
func roomOf(s *appsv1beta1.WorkloadSpreadStatus) *appsv1beta1.WorkloadSpreadStatus {
	out := s.DeepCopy()
	blank := func(all []appsv1beta1.WorkloadSpreadSubsetStatus) {
		for i := range all {
			if all[i].Replicas = takenPlaces(&all[i]); all[i].MissingReplicas == unlimited {
				all[i].Replicas = 0
			}
			all[i].CreatingPods, all[i].DeletingPods = nil, nil
		}
	}
	blank(out.SubsetStatuses)
	for _, all := range out.VersionedSubsetStatuses {
		blank(all)
	}
	return out
}

// doneEvents returns events about what was done to pods.
func doneEvents(a applied) []event.Event {
	var out []event.Event
	if len(a.deleted) > 0 {
		out = append(out, event.Normal(reasonUnschedulable, actionSchedule,
			"deleted %d pod(s) that could not be scheduled, so that they are created in the next subset: %s", len(a.deleted), event.Names(a.deleted)))
	}
	if len(a.failed) > 0 {
		out = append(out, event.Warning(reasonPatchFailed, actionPatch, "could not patch %d pod(s): %s: %v", len(a.failed), event.Names(a.failed), a.err))
	}
	return out
}
