package daemonset

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// status returns the status after a reconcile, and its events. It counts the pods as they were observed: what the reconcile
// changed is counted by the next one. The function is pure.
func status(o observed, p planned, a podcontrol.Results, now time.Time) (appsv1beta1.DaemonSetStatus, []event.Event) {
	old := &o.set.Status
	if a.Collided {
		s := old.DeepCopy()
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return *s, nil
	}
	s := p.count()
	s.ObservedGeneration, s.CollisionCount = o.set.Generation, old.CollisionCount
	s.UpdateRevision = revision.Short(p.Revision.Revision.Name)
	if a.Revision != nil || p.InvalidSpec != "" {
		s.UpdateRevision = old.UpdateRevision // The new revision may not exist.
	}
	scale, update := a.Failures(&p.Plan)
	ready := podcontrol.Readiness(&p.Plan, scale, update, a.Waits) // A pod that can't be scheduled yet doesn't stall: a node may be added.
	if scale.Reason == "" {
		scale = p.unschedulable()
	}
	begins := o.set.Generation != old.ObservedGeneration
	events := a.Events(&p.Plan, begins, nil, nil)
	if n := a.Of(rollout.StepDelete, rollout.ReasonEnded).Done; len(n) > 0 {
		events = append(events, failedDaemonPods(n))
	}
	if p.selectsAll && begins {
		events = append(events, selectingAll(p.InvalidSpec))
	}
	var news []event.Event
	s.Conditions, news = podcontrol.Conditions(old.Conditions, podcontrol.WorkloadConditions(), scale, update, o.overlap.Failure(kind()), report.Failure{}, now)
	s.Conditions = report.PutReadiness(s.Conditions, podcontrol.WorkloadConditions().Form, ready, now)
	for _, e := range news {
		if e.Reason == podcontrol.ReasonFailedScale && scale.Reason == reasonFailedPlacement {
			e = failedPlacement(scale.Message)
		}
		events = append(events, e)
	}
	return s, events
}

// count counts nodes by the oldest pod on each.
func (p *planned) count() appsv1beta1.DaemonSetStatus {
	s := appsv1beta1.DaemonSetStatus{DesiredNumberScheduled: int32(p.desired)} //nolint:gosec // No cluster has so many nodes.
	for node, m := range p.oldest() {
		run, known := p.shouldRun[node]
		switch {
		case !known:
			continue
		case !run:
			s.NumberMisscheduled++
			continue
		}
		s.CurrentNumberScheduled++
		for _, c := range []struct {
			counts bool
			to     *int32
		}{{m.Ready, &s.NumberReady}, {m.Available, &s.NumberAvailable}, {!m.Old, &s.UpdatedNumberScheduled}} {
			if c.counts {
				*c.to++
			}
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	return s
}

// unschedulable returns the failure for pods that can't be scheduled on their nodes.
func (p *planned) unschedulable() report.Failure {
	var first *corev1.Pod
	why, n := "", 0
	for i := range p.Pods {
		pod := p.Pods[i].Object
		c := podpatch.Find(pod, corev1.PodScheduled)
		if pod.DeletionTimestamp != nil || c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
			continue
		}
		n++
		if first == nil || cmp.Less(pod.Name, first.Name) {
			first, why = pod, c.Message
		}
	}
	if first == nil {
		return report.Failure{}
	}
	return report.StalledFailure(reasonFailedPlacement, "pods can't be scheduled on their nodes",
		fmt.Sprintf("%d pod(s), such as %s for %s: %s", n, first.Name, nodeOf(first), why))
}

// countsOnly reports whether s differs from old only in counts and readiness, and does not complete the rollout. Such a status may be written
// later.
func countsOnly(old, s appsv1beta1.DaemonSetStatus) bool {
	if s.UpdatedNumberScheduled == s.DesiredNumberScheduled && s.NumberAvailable == s.DesiredNumberScheduled {
		return false
	}
	s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled, s.UpdatedNumberScheduled =
		old.DesiredNumberScheduled, old.CurrentNumberScheduled, old.NumberMisscheduled, old.UpdatedNumberScheduled
	s.NumberReady, s.NumberAvailable, s.NumberUnavailable = old.NumberReady, old.NumberAvailable, old.NumberUnavailable
	if !report.EqualButReadiness(podcontrol.WorkloadConditions().Form, old.Conditions, s.Conditions) {
		return false
	}
	s.Conditions = old.Conditions
	return apiequality.Semantic.DeepEqual(old, s)
}
