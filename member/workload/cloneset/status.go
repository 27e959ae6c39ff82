package cloneset

import (
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// status returns the status after a reconcile, and its events. It counts the pods as they were observed: what the reconcile
// changed is counted by the next one. The function is pure.
func status(o observed, p planned, a applied, now time.Time) (appsv1beta1.CloneSetStatus, []event.Event) {
	was := &o.set.Status
	if a.Collided {
		s := was.DeepCopy()
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return *s, nil
	}
	s := appsv1beta1.CloneSetStatus{
		ObservedGeneration: o.set.Generation,
		CollisionCount:     was.CollisionCount,
		UpdateRevision:     p.Revision.Revision.Name,
		CurrentRevision:    p.Current.Name,
		LabelSelector:      metav1.FormatLabelSelector(o.set.Spec.Selector),
	}
	if a.Revision != nil || p.InvalidSpec != "" { // The revision may not exist, and must not be named.
		s.UpdateRevision, s.CurrentRevision = was.UpdateRevision, was.CurrentRevision
	}
	n := p.Count()
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = n.All, n.Ready, n.Available
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = n.Updated, n.UpdatedReady, n.UpdatedAvailable
	s.ExpectedUpdatedReplicas = int32(replicas(&o.set.Spec) - p.partition) //nolint:gosec // At most spec.replicas.
	if int(s.Replicas) == replicas(&o.set.Spec) && s.UpdatedReplicas == s.Replicas {
		s.CurrentRevision = s.UpdateRevision
	}
	scale, update := a.Failures(&p.Plan, a.transferred, a.deletedPVCs)
	overlap := o.overlap.Failure(Kind().Kind)
	s.Conditions = setCondition(was.Conditions, appsv1beta1.CloneSetFailedScale, scale, now)
	s.Conditions = setCondition(s.Conditions, appsv1beta1.CloneSetFailedUpdate, update, now)
	s.Conditions = setCondition(s.Conditions, appsv1beta1.CloneSetSelectorOverlap, overlap, now)
	s.Conditions = report.PutCondition(s.Conditions, ofType(appsv1beta1.CloneSetProgressing), progress(o.set, &s, now))
	events := a.Events(&p.Plan, o.set.Generation != was.ObservedGeneration, []error{a.deletedPVCs}, []error{a.transferred})
	// A failure is reported when it begins, not with each reconcile.
	if scale.News(entry(was.Conditions, appsv1beta1.CloneSetFailedScale)) {
		events = append(events, podcontrol.FailedScale(scale.Message))
	}
	if update.News(entry(was.Conditions, appsv1beta1.CloneSetFailedUpdate)) {
		events = append(events, podcontrol.FailedUpdate(update.Message))
	}
	if overlap.News(entry(was.Conditions, appsv1beta1.CloneSetSelectorOverlap)) {
		events = append(events, podcontrol.Overlap(overlap.Message))
	}
	return s, events
}

// setCondition sets the condition to True with a failure, or removes it if there is none.
func setCondition(
	was []appsv1beta1.CloneSetCondition, t appsv1beta1.CloneSetConditionType, f report.Failure, now time.Time,
) []appsv1beta1.CloneSetCondition {
	var c *appsv1beta1.CloneSetCondition
	if e := f.After(entry(was, t), now); e != nil {
		c = &appsv1beta1.CloneSetCondition{
			Type: t, Status: e.Status, Reason: e.Reason, Message: e.Message, LastUpdateTime: e.Updated, LastTransitionTime: e.Turned,
		}
	}
	return report.PutCondition(was, ofType(t), c)
}

// entry returns the content of the condition of a type, nil if there is none.
func entry(conditions []appsv1beta1.CloneSetCondition, t appsv1beta1.CloneSetConditionType) *report.ConditionEntry {
	c := find(conditions, t)
	if c == nil {
		return nil
	}
	return &report.ConditionEntry{
		Status: c.Status, Reason: c.Reason, Message: c.Message, Updated: c.LastUpdateTime, Turned: c.LastTransitionTime,
	}
}

func find(conditions []appsv1beta1.CloneSetCondition, t appsv1beta1.CloneSetConditionType) *appsv1beta1.CloneSetCondition {
	i := slices.IndexFunc(conditions, ofType(t))
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

// ofType matches the condition of a type.
func ofType(t appsv1beta1.CloneSetConditionType) func(appsv1beta1.CloneSetCondition) bool {
	return func(c appsv1beta1.CloneSetCondition) bool { return c.Type == t }
}

// countsOnly tells whether s differs from the set's status in counts only, which the message of Progressing repeats, and does not
// complete the rollout: all pods updated and available.
func countsOnly(set *appsv1beta1.CloneSet, s appsv1beta1.CloneSetStatus) bool {
	if int(s.UpdatedAvailableReplicas) == replicas(&set.Spec) {
		return false
	}
	was := &set.Status
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = was.Replicas, was.ReadyReplicas, was.AvailableReplicas
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas =
		was.UpdatedReplicas, was.UpdatedReadyReplicas, was.UpdatedAvailableReplicas
	p, now := find(was.Conditions, appsv1beta1.CloneSetProgressing), find(s.Conditions, appsv1beta1.CloneSetProgressing)
	if p != nil && now != nil && p.Status == now.Status && p.Reason == now.Reason {
		s.Conditions = report.PutCondition(s.Conditions, ofType(appsv1beta1.CloneSetProgressing), p)
	}
	return apiequality.Semantic.DeepEqual(*was, s)
}
