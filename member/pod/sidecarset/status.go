package sidecarset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// shownReasons is how many reasons the message of condition Injected lists.
const shownReasons = 3

// status returns the new status, and events about the SidecarSet.
func status(o observed, p planned, a applied, now time.Time) (appsv1beta1.SidecarSetStatus, []event.Event) {
	s := *o.set.Status.DeepCopy()
	s.MatchedPods, s.UpdatedPods, s.ReadyPods, s.UpdatedReadyPods = p.matched, p.updated, p.ready, p.updatedReady
	if s.CollisionCount == nil {
		s.CollisionCount = new(int32)
	}
	switch {
	case a.collided:
		*s.CollisionCount++
	case a.revised: // Without its revision, the current generation is not acted on yet.
		s.ObservedGeneration = o.set.Generation
		s.LatestRevision = p.revision.Revision.Name
	}
	c := metav1.Condition{
		Type: appsv1beta1.SidecarSetInjected, Status: metav1.ConditionTrue, Reason: reasonInjected,
		Message: "all selected pods have its sidecars", ObservedGeneration: o.set.Generation,
	}
	if len(p.uninjected) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonNotInjected, report.Truncate(p.notInjected())
	}
	previous := report.GetCondition(s.Conditions, c.Type)
	began := c.Status == metav1.ConditionFalse && (previous == nil || previous.Status != c.Status)
	s.Conditions = report.SetCondition(s.Conditions, c, now)
	s.Conditions = report.SetCondition(s.Conditions, active(o), now)
	s.Conditions = upgradable(s.Conditions, o.set, p.updates.needRecreate, now)
	s.Conditions = report.SetReadiness(s.Conditions, readiness(&p, a), o.set.Generation, now)
	var events []event.Event
	if began {
		events = append(events, event.Normal(reasonNotInjected, actionInject, "%s", c.Message))
	}
	if n := len(a.notUpgradable); n > 0 {
		events = append(events, event.Warning(reasonNotUpgradable, actionUpdate,
			"%d pod(s) can't be updated in place, because more than images changed: %s; "+
				"to recreate them, restart their workloads with kubectl kruise rollout restart",
			n, event.Names(a.notUpgradable)))
	}
	if n := len(a.recreated); n > 0 {
		events = append(events, event.Normal(reasonRecreating, actionUpdate,
			"asked the workloads of %d pod(s) to recreate them, because more than images changed: %s", n, event.Names(a.recreated)))
	}
	return s, events
}

// active returns the Active condition, which says whether new pods get sidecars.
func active(o observed) metav1.Condition {
	c := metav1.Condition{
		Type: appsv1beta1.SidecarSetActive, Status: metav1.ConditionTrue, Reason: reasonSent,
		Message: "new pods in the selected namespaces are sent to the pod webhook", ObservedGeneration: o.set.Generation,
	}
	if o.whyNotActive != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonNotSent, o.whyNotActive
	}
	return c
}

// readiness returns whether the pods that have sidecars have the ones that the spec wants. Pods that the partition or the selector of the
// update strategy leaves at an older revision match the spec. So do pods without any sidecars: they get them when they are recreated, and
// condition Injected reports them.
func readiness(p *planned, a applied) report.Readiness {
	u := &p.updates
	paused := func(h rollout.Hold) bool { return h.Reason == rollout.ReasonPaused }
	waits := func(h rollout.Hold) bool {
		return !paused(h) && (h.Reason != rollout.ReasonNotInPlace || h.Pods > u.unselected)
	}
	changes := len(u.images) + len(u.resets) + len(u.recreates)
	switch {
	case a.err != nil:
		return report.Retrying(report.WriteFailure(a.err))
	case len(u.needRecreate) > 0:
		return report.Stalled(report.Failure{
			Reason: reasonImmutable, Message: "pods need more than new images: restart their workloads with kubectl kruise rollout restart",
		})
	case a.waits.Reason != "":
		return report.Retrying(a.waits)
	case !a.revised, len(a.refusedNamespaces) > 0, changes > 0, slices.ContainsFunc(u.holds, waits), p.updatedReady < p.updated:
		return report.Reconciling(report.ReasonProgressing, "pods are being updated, or are not ready with the sidecars yet")
	case slices.ContainsFunc(u.holds, paused):
		return report.Reconciling(report.ReasonPaused, "pods are not updated while spec.updateStrategy is paused")
	}
	return report.Ready("all pods with sidecars have the ones in the spec")
}

// upgradable sets the Upgradable condition, which says whether pods wait for changes other than new images. It doesn't exist before pods
// wait for the first time, nor with type NotUpdate.
func upgradable(in []metav1.Condition, s *appsv1beta1.SidecarSet, needRecreate []string, now time.Time) []metav1.Condition {
	c := metav1.Condition{
		Type: appsv1beta1.SidecarSetUpgradable, Status: metav1.ConditionTrue, Reason: reasonAllUpgradable,
		Message: "no pod needs more than new images", ObservedGeneration: s.Generation,
	}
	switch {
	case s.Spec.UpdateStrategy.Type != appsv1beta1.SidecarSetRollingUpdate:
		return report.RemoveCondition(in, c.Type)
	case len(needRecreate) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, reasonImmutable
		c.Message = fmt.Sprintf("%d pod(s) need more than new images: %s; to recreate them, restart their workloads with kubectl kruise rollout restart",
			len(needRecreate), event.Names(needRecreate))
	case report.GetCondition(in, c.Type) == nil:
		return in
	}
	return report.SetCondition(in, c, now)
}

// notInjected returns a message that says which pods have no sidecars, and why.
func (p *planned) notInjected() string {
	total := 0
	parts := make([]string, 0, len(p.uninjected))
	for i, a := range p.uninjected {
		total += a.count
		switch {
		case i < shownReasons && a.count > 1:
			parts = append(parts, fmt.Sprintf("%s and %d more: %s", a.first, a.count-1, a.why))
		case i < shownReasons:
			parts = append(parts, fmt.Sprintf("%s: %s", a.first, a.why))
		}
	}
	if more := len(p.uninjected) - shownReasons; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more reason(s)", more))
	}
	return fmt.Sprintf("selected pods without its sidecars: %d; %s", total, strings.Join(parts, "; "))
}
