package persistentpodstate

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// status returns the new status, and events about the PersistentPodState, which must exist.
func status(o observed, p planned, now time.Time) (appsv1beta1.PersistentPodStateStatus, []event.Event) {
	s := *o.pps.Status.DeepCopy()
	s.ObservedGeneration = o.pps.Generation
	s.PodStates = p.states
	c := metav1.Condition{
		Type: appsv1beta1.PersistentPodStateActive, Status: metav1.ConditionTrue, Reason: reasonRecording,
		Message: "the state of ready pods is recorded, and restored for new ones", ObservedGeneration: o.pps.Generation,
	}
	if p.inactive != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, p.inactive.reason, p.inactive.message
	}
	s.Conditions = report.SetCondition(s.Conditions, c, now)
	s.Conditions = report.SetReadiness(s.Conditions, readiness(p), o.pps.Generation, now)
	var events []event.Event
	if len(p.forgotten) > 0 {
		events = append(events, event.Normal(reasonForgotten, actionRecord, "removed the recorded state of %d pod(s), because %s: %s",
			len(p.forgotten), p.why, event.Names(p.forgotten)))
	}
	before := report.GetCondition(o.pps.Status.Conditions, c.Type)
	if p.inactive != nil && p.inactive.reason != reasonTargetGone && (before == nil || before.Reason != c.Reason) {
		events = append(events, event.Warning(c.Reason, actionRecord, "%s", c.Message))
	}
	return s, events
}

// readiness returns whether pods are recorded and brought back. A target may be created after its PersistentPodState, and the webhook may not
// be set up yet.
func readiness(p planned) report.Readiness {
	if p.inactive == nil {
		return report.Ready("the state of ready pods is recorded, and restored for new ones")
	}
	switch p.inactive.reason {
	case reasonNotAllowed, reasonTargetTaken, reasonTargetDenied:
		return report.Stalled(report.Failure{Reason: p.inactive.reason, Message: p.inactive.message})
	}
	return report.Reconciling(p.inactive.reason, p.inactive.message)
}

// generationEvents returns events about a workload for which a PersistentPodState is generated.
func generationEvents(p planned, a applied) []event.Event {
	switch {
	case p.generation.fault != nil:
		return []event.Event{event.Warning(p.generation.fault.reason, actionGenerate, "%s", p.generation.fault.message)}
	case a.created:
		return []event.Event{event.Normal(reasonGenerated, actionGenerate, "created PersistentPodState %s", p.generation.create.Name)}
	}
	return nil
}
