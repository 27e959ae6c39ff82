package statefulset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// status returns the status after a reconcile, and what to tell about it. It counts pods and claims as they were observed: what
// the reconcile changed comes with the next one. The function is pure.
func status(o observed, w planned, d applied, now time.Time) (appsv1beta1.StatefulSetStatus, []event.Event) {
	was := &o.set.Status
	s := *was.DeepCopy()
	if d.Collided {
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return s, nil
	}
	s.ObservedGeneration, s.LabelSelector = o.set.Generation, metav1.FormatLabelSelector(o.set.Spec.Selector)
	if d.Revision == nil && w.InvalidSpec == "" { // Else the revision may not exist, and must not be named.
		s.UpdateRevision, s.CurrentRevision = w.Revision.Revision.Name, w.Current.Name
	}
	count(&s, w)
	complete(&s, o.set)
	s.VolumeClaims = claimCounts(o, w)

	scale, update := d.Failures(&w.Plan, d.createdPVCs.Err, d.adopted.Err)
	if d.resized.Err != nil {
		update = report.WriteFailure(d.resized.Err)
	}
	if w.stalledPVC.Reason != "" && (scale.Reason == "" || scale == w.Stalled.Failure) { // It is why the others wait.
		scale = w.stalledPVC
	}
	var told []event.Event
	s.Conditions, told = podcontrol.Conditions(was.Conditions, scale, update, o.overlap.Failure(Kind().Kind), now)
	for i := range told {
		if told[i].Reason == podcontrol.ReasonFailedUpdate && update.Reason == reasonFailedUpdatePVC {
			told[i].Reason = reasonFailedUpdatePVC
		}
	}
	begins := o.set.Generation != was.ObservedGeneration
	return s, slices.Concat(d.Events(&w.Plan, begins, nil, []error{d.createdPVCs.Err, d.adopted.Err}), d.own(), told)
}

// own are the events of what only a StatefulSet does.
func (d *applied) own() []event.Event {
	var out []event.Event
	if n := len(d.adopted.Done); n > 0 {
		out = append(out, podcontrol.Adopted("pods", d.adopted.Done))
	}
	if n := len(d.resized.Done); n > 0 {
		out = append(out, event.Normal(reasonSuccessfulResize, podcontrol.ActionUpdate, "resized %d PVCs: %s", n, event.Names(d.resized.Done)))
	}
	if d.resized.Err != nil {
		out = append(out, event.Warning(reasonFailedResize, podcontrol.ActionUpdate, "%v", d.resized.Err))
	}
	return out
}

// count counts pods as kube 1.36 does for its StatefulSet: those that are being deleted exist and may be ready, but are at no
// revision any more.
func count(s *appsv1beta1.StatefulSetStatus, w planned) {
	n := w.Count()
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = n.Updated, n.UpdatedReady, n.UpdatedAvailable
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas = 0, 0, 0, 0
	for i := range w.Pods {
		m := &w.Pods[i]
		s.Replicas++
		if m.Ready {
			s.ReadyReplicas++
		}
		if m.Available {
			s.AvailableReplicas++
		}
		if !m.Inactive && podset.AtRevision(m.Object, w.Current.Name) {
			s.CurrentReplicas++
		}
	}
}

// complete ends a rolling update when all pods are updated and ready: what they were updated from is of no matter then.
func complete(s *appsv1beta1.StatefulSetStatus, set *appsv1beta1.StatefulSet) {
	want := int32(replicas(&set.Spec)) //nolint:gosec // It was an int32.
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType &&
		s.Replicas == want && s.UpdatedReplicas == want && s.ReadyReplicas == want {
		s.CurrentRevision, s.CurrentReplicas = s.UpdateRevision, s.UpdatedReplicas
	}
}

// claimCounts are, for each claim template, how many claims of wanted pods are as it asks, and how many of these have what
// they ask for.
func claimCounts(o observed, w planned) []appsv1beta1.StatefulSetVolumeClaimStatus {
	if len(o.set.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	out := make([]appsv1beta1.StatefulSetVolumeClaimStatus, 0, len(o.set.Spec.VolumeClaimTemplates))
	for i := range o.set.Spec.VolumeClaimTemplates {
		t := &o.set.Spec.VolumeClaimTemplates[i]
		n := appsv1beta1.StatefulSetVolumeClaimStatus{VolumeClaimName: t.Name}
		for _, place := range w.slots {
			c := o.claims[pvcNames(podName(o.set, place.Key))(t.Name)]
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

// countsOnly tells whether s differs from the set's status in counters only, and is not the end of what others wait for: all
// pods updated and available.
func countsOnly(set *appsv1beta1.StatefulSet, s appsv1beta1.StatefulSetStatus) bool {
	was := &set.Status
	if int(s.UpdatedAvailableReplicas) == replicas(&set.Spec) && s.UpdatedAvailableReplicas != was.UpdatedAvailableReplicas {
		return false
	}
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas =
		was.Replicas, was.ReadyReplicas, was.AvailableReplicas, was.CurrentReplicas
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas =
		was.UpdatedReplicas, was.UpdatedReadyReplicas, was.UpdatedAvailableReplicas
	s.VolumeClaims = was.VolumeClaims
	return apiequality.Semantic.DeepEqual(*was, s)
}
