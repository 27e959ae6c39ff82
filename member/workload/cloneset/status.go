package cloneset

import (
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// status returns the status after a reconcile, and its events. It counts the pods as they were observed: what the reconcile
// changed is counted by the next one. The function is pure.
func status(o observed, p planned, a applied, now time.Time) (appsv1beta1.CloneSetStatus, []event.Event) {
	old := &o.set.Status
	if a.Collided {
		s := old.DeepCopy()
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return *s, nil
	}
	s := appsv1beta1.CloneSetStatus{
		ObservedGeneration: o.set.Generation,
		CollisionCount:     old.CollisionCount,
		UpdateRevision:     p.Revision.Revision.Name,
		CurrentRevision:    p.Current.Name,
		LabelSelector:      metav1.FormatLabelSelector(o.set.Spec.Selector),
	}
	if a.Revision != nil || p.InvalidSpec != "" { // The revision may not exist.
		s.UpdateRevision, s.CurrentRevision = old.UpdateRevision, old.CurrentRevision
	}
	n := p.Count()
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = n.All, n.Ready, n.Available
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = n.Updated, n.UpdatedReady, n.UpdatedAvailable
	s.ExpectedUpdatedReplicas = int32(replicas(&o.set.Spec) - p.partition) //nolint:gosec // At most spec.replicas.
	if int(s.Replicas) == replicas(&o.set.Spec) && s.UpdatedReplicas == s.Replicas {
		s.CurrentRevision = s.UpdateRevision
	}
	scale, update := a.Failures(&p.Plan, a.transferred, a.deletedPVCs)
	var begun []event.Event
	s.Conditions, begun = podcontrol.Conditions(old.Conditions, conditionForm(), scale, update, o.overlap.Failure(Kind().Kind), p.TerminatingPVCs(), now)
	s.Conditions = report.PutCondition(s.Conditions, ofType(appsv1beta1.CloneSetProgressing), progress(o.set, &s, now))
	s.Conditions = report.PutReadiness(s.Conditions, conditionForm().Form, readiness(&p.Plan, scale, update, a.Waits, &s), now)
	events := a.Events(&p.Plan, o.set.Generation != old.ObservedGeneration, []error{a.deletedPVCs}, []error{a.transferred})
	return s, append(events, begun...)
}

// readiness reports whether the pods are as the spec wants them. A rollout that exceeded progressDeadlineSeconds is stalled.
func readiness(p *podset.Plan, scale, update, waits report.Failure, s *appsv1beta1.CloneSetStatus) report.Readiness {
	if c := find(s.Conditions, appsv1beta1.CloneSetProgressing); c != nil && c.Reason == appsv1beta1.CloneSetReasonDeadlineExceeded {
		message := c.Message
		if waits.Reason != "" {
			message += "; " + waits.Message
		}
		return report.Stalled(report.Failure{Reason: c.Reason, Message: message})
	}
	return podcontrol.Readiness(p, scale, update, waits)
}

// conditionForm converts the conditions of a CloneSet.
func conditionForm() podcontrol.ConditionForm[appsv1beta1.CloneSetCondition] {
	type condition = appsv1beta1.CloneSetCondition
	return podcontrol.ConditionForm[condition]{
		Scale: string(appsv1beta1.CloneSetFailedScale), Update: string(appsv1beta1.CloneSetFailedUpdate),
		Overlap: string(appsv1beta1.CloneSetSelectorOverlap), PVC: string(appsv1beta1.CloneSetPVCTerminating),
		Form: report.Form[condition]{
			Type: func(c condition) string { return string(c.Type) },
			Entry: func(c condition) report.ConditionEntry {
				return report.ConditionEntry{
					Status: c.Status, Reason: c.Reason, Message: c.Message, Updated: c.LastUpdateTime, Turned: c.LastTransitionTime,
				}
			},
			New: func(t string, e report.ConditionEntry) condition {
				return condition{
					Type: appsv1beta1.CloneSetConditionType(t), Status: e.Status, Reason: e.Reason, Message: e.Message,
					LastUpdateTime: e.Updated, LastTransitionTime: e.Turned,
				}
			},
		},
	}
}

func find(conditions []appsv1beta1.CloneSetCondition, t appsv1beta1.CloneSetConditionType) *appsv1beta1.CloneSetCondition {
	i := slices.IndexFunc(conditions, ofType(t))
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

// ofType matches conditions of a type.
func ofType(t appsv1beta1.CloneSetConditionType) func(appsv1beta1.CloneSetCondition) bool {
	return func(c appsv1beta1.CloneSetCondition) bool { return c.Type == t }
}

// countsOnly reports whether s differs from the set's status only in counts, readiness, and the time of the last progress, and does not
// complete the rollout. Such a status may be written later.
func countsOnly(set *appsv1beta1.CloneSet, s appsv1beta1.CloneSetStatus) bool {
	if int(s.UpdatedAvailableReplicas) == replicas(&set.Spec) {
		return false
	}
	old := &set.Status
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = old.Replicas, old.ReadyReplicas, old.AvailableReplicas
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas =
		old.UpdatedReplicas, old.UpdatedReadyReplicas, old.UpdatedAvailableReplicas
	p, now := find(old.Conditions, appsv1beta1.CloneSetProgressing), find(s.Conditions, appsv1beta1.CloneSetProgressing)
	if p != nil && now != nil && p.Status == now.Status && p.Reason == now.Reason {
		s.Conditions = report.PutCondition(s.Conditions, ofType(appsv1beta1.CloneSetProgressing), p)
	}
	if !report.EqualButReadiness(conditionForm().Form, old.Conditions, s.Conditions) {
		return false
	}
	s.Conditions = old.Conditions
	return apiequality.Semantic.DeepEqual(*old, s)
}
