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

// status returns the status after a reconcile, and what to tell about it. It counts the pods as they were observed: what the
// pass changed comes with the next one. The function is pure.
func status(o observed, w planned, d applied, now time.Time) (appsv1beta1.CloneSetStatus, []event.Event) {
	was := &o.set.Status
	if d.Collided {
		s := was.DeepCopy()
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return *s, nil
	}
	s := appsv1beta1.CloneSetStatus{
		ObservedGeneration: o.set.Generation,
		CollisionCount:     was.CollisionCount,
		UpdateRevision:     w.Revision.Revision.Name,
		CurrentRevision:    w.Current.Name,
		LabelSelector:      metav1.FormatLabelSelector(o.set.Spec.Selector),
	}
	if d.Revision != nil || w.InvalidSpec != "" { // The revision may not exist, and must not be named.
		s.UpdateRevision, s.CurrentRevision = was.UpdateRevision, was.CurrentRevision
	}
	n := w.Count()
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = n.All, n.Ready, n.Available
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = n.Updated, n.UpdatedReady, n.UpdatedAvailable
	s.ExpectedUpdatedReplicas = int32(replicas(&o.set.Spec) - w.partition) //nolint:gosec // At most spec.replicas.
	if int(s.Replicas) == replicas(&o.set.Spec) && s.UpdatedReplicas == s.Replicas {
		s.CurrentRevision = s.UpdateRevision
	}
	scale, update := d.Failures(&w.Plan, d.transferred, d.deletedPVCs)
	overlap := o.overlap.Failure(Kind().Kind)
	s.Conditions = setCondition(was.Conditions, appsv1beta1.CloneSetFailedScale, scale, now)
	s.Conditions = setCondition(s.Conditions, appsv1beta1.CloneSetFailedUpdate, update, now)
	s.Conditions = setCondition(s.Conditions, appsv1beta1.CloneSetSelectorOverlap, overlap, now)
	s.Conditions = report.PutCondition(s.Conditions, ofType(appsv1beta1.CloneSetProgressing), progress(o.set, &s, now))
	events := d.Events(&w.Plan, o.set.Generation != was.ObservedGeneration, []error{d.deletedPVCs}, []error{d.transferred})
	// What lasts is told once, not with each reconcile.
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

// setCondition sets the condition True with what failed, or takes it off where nothing did.
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

// entry is what the condition of a type says, nil if there is none.
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

// ofType finds the condition of a type.
func ofType(t appsv1beta1.CloneSetConditionType) func(appsv1beta1.CloneSetCondition) bool {
	return func(c appsv1beta1.CloneSetCondition) bool { return c.Type == t }
}

// countsOnly tells whether s differs from the set's status in counters only, and what Progressing says of them, and is not
// the end of what others wait for: all pods updated and available.
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
