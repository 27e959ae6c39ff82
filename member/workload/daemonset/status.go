package daemonset

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// status returns the status after a reconcile, and what to tell about it. It counts the pods as they were observed: what the
// pass changed comes with the next one. The function is pure.
func status(o observed, w planned, d podcontrol.Results, now time.Time) (appsv1beta1.DaemonSetStatus, []event.Event) {
	was := &o.set.Status
	if d.Collided {
		s := was.DeepCopy()
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return *s, nil
	}
	s := w.count()
	s.ObservedGeneration, s.CollisionCount = o.set.Generation, was.CollisionCount
	s.UpdateRevision = revision.Short(w.Revision.Revision.Name)
	if d.Revision != nil || w.InvalidSpec != "" {
		s.UpdateRevision = was.UpdateRevision // The revision may not exist, and must not be named.
	}
	scale, update := d.Failures(&w.Plan)
	if scale.Reason == "" {
		scale = w.unplaced()
	}
	begins := o.set.Generation != was.ObservedGeneration
	events := d.Events(&w.Plan, begins, nil, nil)
	if n := d.Of(rollout.StepDelete, rollout.ReasonEnded).Done; len(n) > 0 {
		events = append(events, failedDaemonPods(n))
	}
	if w.selectsAll && begins {
		events = append(events, selectingAll(w.InvalidSpec))
	}
	var news []event.Event
	s.Conditions, news = podcontrol.Conditions(was.Conditions, scale, update, o.overlap.Failure(kind()), now)
	for _, e := range news {
		if e.Reason == podcontrol.ReasonFailedScale && scale.Reason == ReasonFailedPlacement {
			e = failedPlacement(scale.Message)
		}
		events = append(events, e)
	}
	return s, events
}

// count counts nodes, each by the oldest of its pods.
func (w *planned) count() appsv1beta1.DaemonSetStatus {
	s := appsv1beta1.DaemonSetStatus{DesiredNumberScheduled: int32(w.desired)} //nolint:gosec // No cluster has so many nodes.
	for node, m := range w.oldest() {
		run, known := w.shouldRun[node]
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

// unplaced tells of pods for which the scheduler finds no room on their nodes.
func (w *planned) unplaced() report.Failure {
	var first *corev1.Pod
	why, n := "", 0
	for i := range w.Pods {
		pod := w.Pods[i].Object
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
	return report.StalledFailure(ReasonFailedPlacement, "pods find no room on their nodes",
		fmt.Sprintf("%d pods, such as %s for %s: %s", n, first.Name, nodeOf(first), why))
}

// countsOnly tells whether s differs from the set's status in counters only, and is not the end of what others wait for: a pod
// of the update revision available on each node that fits.
func countsOnly(was, s appsv1beta1.DaemonSetStatus) bool {
	if s.UpdatedNumberScheduled == s.DesiredNumberScheduled && s.NumberAvailable == s.DesiredNumberScheduled {
		return false
	}
	s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled, s.UpdatedNumberScheduled =
		was.DesiredNumberScheduled, was.CurrentNumberScheduled, was.NumberMisscheduled, was.UpdatedNumberScheduled
	s.NumberReady, s.NumberAvailable, s.NumberUnavailable = was.NumberReady, was.NumberAvailable, was.NumberUnavailable
	return apiequality.Semantic.DeepEqual(was, s)
}
