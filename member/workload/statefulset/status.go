package statefulset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// status returns the status after a reconcile, and its events. It counts pods and PVCs as they were observed: what the reconcile
// changed is counted by the next one. The function is pure.
func status(o observed, p planned, a applied, now time.Time) (appsv1beta1.StatefulSetStatus, []event.Event) {
	old := &o.set.Status
	s := *old.DeepCopy()
	if a.Collided {
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return s, nil
	}
	s.ObservedGeneration, s.LabelSelector = o.set.Generation, metav1.FormatLabelSelector(o.set.Spec.Selector)
	if a.Revision == nil { // Otherwise the revision may not exist.
		s.UpdateRevision, s.CurrentRevision = p.Revision.Revision.Name, p.Current.Name
	}
	count(&s, p)
	complete(&s, o.set)
	s.VolumeClaims = pvcCounts(o, p)

	scale, update := a.Failures(&p.Plan, a.createdPVCs.Err, a.adopted.Err)
	if a.resized.Err != nil {
		update = report.WriteFailure(a.resized.Err)
	}
	if p.stalledPVC.Reason != "" && (scale.Reason == "" || scale == p.Stalled.Failure) { // It causes the stall.
		scale = p.stalledPVC
	}
	var begun []event.Event
	s.Conditions, begun = podcontrol.Conditions(old.Conditions, podcontrol.WorkloadConditions(), scale, update,
		o.overlap.Failure(Kind().Kind), p.TerminatingPVCs(), now)
	s.Conditions = report.PutReadiness(s.Conditions, podcontrol.WorkloadConditions().Form, podcontrol.Readiness(&p.Plan, scale, update, a.Waits), now)
	for i := range begun {
		if begun[i].Reason == podcontrol.ReasonFailedUpdate && update.Reason == reasonFailedUpdatePVC {
			begun[i].Reason = reasonFailedUpdatePVC
		}
	}
	begins := o.set.Generation != old.ObservedGeneration
	return s, slices.Concat(a.Events(&p.Plan, begins, nil, []error{a.createdPVCs.Err, a.adopted.Err}), a.ownEvents(), begun)
}

// ownEvents returns the events that only a StatefulSet has.
func (a *applied) ownEvents() []event.Event {
	var out []event.Event
	if len(a.adopted.Done) > 0 {
		out = append(out, podcontrol.Adopted("pods", a.adopted.Done))
	}
	if len(a.resized.Done) > 0 {
		out = append(out, resized(a.resized.Done))
	}
	if a.resized.Err != nil {
		out = append(out, failedResize(a.resized.Err))
	}
	return out
}

// count counts pods the way kube 1.36 does for its StatefulSet: terminating pods exist and may be ready, but have no revision.
func count(s *appsv1beta1.StatefulSetStatus, p planned) {
	n := p.Count()
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = n.Updated, n.UpdatedReady, n.UpdatedAvailable
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas = 0, 0, 0, 0
	for i := range p.Pods {
		m := &p.Pods[i]
		s.Replicas++
		if m.Ready {
			s.ReadyReplicas++
		}
		if m.Available {
			s.AvailableReplicas++
		}
		if !m.Inactive && podset.AtRevision(m.Object, p.Current.Name) {
			s.CurrentReplicas++
		}
	}
}

// complete ends a rolling update when all pods are updated and ready: the update revision becomes the current one.
func complete(s *appsv1beta1.StatefulSetStatus, set *appsv1beta1.StatefulSet) {
	want := int32(replicas(&set.Spec)) //nolint:gosec // It was an int32.
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType &&
		s.Replicas == want && s.UpdatedReplicas == want && s.ReadyReplicas == want {
		s.CurrentRevision, s.CurrentReplicas = s.UpdateRevision, s.UpdatedReplicas
	}
}

// pvcCounts returns, for each volumeClaimTemplate, how many PVCs of wanted pods are compatible with it, and how many of those have the
// requested capacity.
func pvcCounts(o observed, p planned) []appsv1beta1.StatefulSetVolumeClaimStatus {
	if len(o.set.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	out := make([]appsv1beta1.StatefulSetVolumeClaimStatus, 0, len(o.set.Spec.VolumeClaimTemplates))
	for i := range o.set.Spec.VolumeClaimTemplates {
		t := &o.set.Spec.VolumeClaimTemplates[i]
		n := appsv1beta1.StatefulSetVolumeClaimStatus{VolumeClaimName: t.Name}
		for _, slot := range p.slots {
			c := o.pvcs[pvcNames(podName(o.set, slot.Key))(t.Name)]
			if c == nil || !compatible(c, t) || larger(t.Spec.Resources.Requests, c.Spec.Resources.Requests) {
				continue
			}
			n.CompatibleReplicas++
			if !larger(c.Spec.Resources.Requests, c.Status.Capacity) {
				n.CompatibleReadyReplicas++
			}
		}
		out = append(out, n)
	}
	return out
}

// countsOnly reports whether s differs from the set's status only in counts and readiness, and does not complete the rollout. Such a status
// may be written later.
func countsOnly(set *appsv1beta1.StatefulSet, s appsv1beta1.StatefulSetStatus) bool {
	old := &set.Status
	if int(s.UpdatedAvailableReplicas) == replicas(&set.Spec) && s.UpdatedAvailableReplicas != old.UpdatedAvailableReplicas {
		return false
	}
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas =
		old.Replicas, old.ReadyReplicas, old.AvailableReplicas, old.CurrentReplicas
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas =
		old.UpdatedReplicas, old.UpdatedReadyReplicas, old.UpdatedAvailableReplicas
	s.VolumeClaims = old.VolumeClaims
	if !report.EqualButReadiness(podcontrol.WorkloadConditions().Form, old.Conditions, s.Conditions) {
		return false
	}
	s.Conditions = old.Conditions
	return apiequality.Semantic.DeepEqual(*old, s)
}
