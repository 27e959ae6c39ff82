package uniteddeployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// Reasons of conditions.
const (
	reasonError       = "Error"
	reasonNotServed   = "NotServed"
	reasonIneffective = "SpecifySubsetReplicas"
	reasonUnallocated = "UnallocatedReplicas"
	reasonAllSubsets  = "AllSubsets"
	reasonWaiting     = "Waiting"
)

// status returns the status after a reconcile, and its events. The function is pure.
//
// observedGeneration advances only when the apiserver's answers show that every workload is as wanted; a hub relies on it. Subsets whose
// numbers do not add up don't hold it back, because everything else was done. With maxUnavailable, the workload's controller must have observed
// its spec too: a hub that takes a grant back gives it to another cluster, so the earlier one must no longer be in force.
func status(o observed, p planned, a applied, now time.Time) (appsv1beta1.UnitedDeploymentStatus, []event.Event) {
	s := *o.ud.Status.DeepCopy()
	if a.collided {
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return s, nil
	}
	s.LabelSelector = selectorOf(o.ud)
	if p.fault == nil {
		if a.revision == nil {
			s.UpdatedRevision = p.revision.Revision.Name
		}
		sumCounts(&s, p, a)
		if s.CurrentRevision == "" || rolledOut(&s, p, a) {
			s.CurrentRevision = s.UpdatedRevision
		}
		if a.joinAll() == nil && !a.late && len(missingSubsets(p, a)) == 0 && limitsInForce(p, a) {
			s.ObservedGeneration = o.ud.Generation
		}
	}
	failure := failureOf(p, a)
	conditions(&s, p, a, failure, now)
	s.Conditions = report.PutReadiness(s.Conditions, united.Form(), readiness(&s, p, a), now)
	return s, eventsOf(o, p, a, failure)
}

// sumCounts counts the pods of all workloads. Updated pods are counted only if the workload's controller has observed the template, because until
// then its counts are about the previous template. Reserved pods are counted in their subset only.
func sumCounts(s *appsv1beta1.UnitedDeploymentStatus, p planned, a applied) {
	var all counts
	var reserved int32
	before := *s
	s.SubsetStatuses = make([]appsv1beta1.SubsetStatus, 0, len(p.subsets))
	for i := range p.subsets {
		t := &p.subsets[i]
		line := appsv1beta1.SubsetStatus{Name: t.name, Replicas: t.replicas, Partition: t.partition, ReservedPods: t.reserved}
		if c := t.room.condition; c != nil {
			line.Conditions = []appsv1beta1.SubsetCondition{*c}
		}
		if c, ok := a.children[t.name]; ok {
			line.ReadyReplicas, line.AvailableReplicas = c.ready, c.available
			if c.countsAt(s.UpdatedRevision) {
				line.UpdatedReplicas, line.UpdatedReadyReplicas, line.UpdatedAvailableReplicas = c.updated, c.updatedReady, c.updatedAvailable
			}
			n := t.room.reserved.exclude(
				counts{
					c.pods, line.ReadyReplicas, line.AvailableReplicas, line.UpdatedReplicas, line.UpdatedReadyReplicas, line.UpdatedAvailableReplicas,
				},
				func(pod *corev1.Pod) bool { return revision.Same(pod.Labels[keys.SubsetRevision], s.UpdatedRevision) })
			all.pods += n.pods
			all.ready += n.ready
			all.available += n.available
			all.updated += n.updated
			all.updatedReady += n.updatedReady
			all.updatedAvailable += n.updatedAvailable
		}
		if old := lineOf(&before, t.name); old != nil && a.unsure {
			line.Replicas, line.ReservedPods = old.Replicas, old.ReservedPods
		}
		reserved += line.ReservedPods
		s.SubsetStatuses = append(s.SubsetStatuses, line)
	}
	s.ReservedPods = reserved
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = all.pods, all.ready, all.available
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = all.updated, all.updatedReady, all.updatedAvailable
}

// selectorOf selects the pods of all subsets except reserved ones, because an autoscaler should average over the pods that do the work.
func selectorOf(ud *appsv1beta1.UnitedDeployment) string {
	selector := metav1.FormatLabelSelector(ud.Spec.Selector)
	if reserving(ud) {
		selector += "," + keys.SubsetReserved + "!=true"
	}
	return selector
}

// wantedUpdated returns how many of the wanted pods should be at the update revision.
func wantedUpdated(p planned) int32 {
	n := p.wanted
	for i := range p.subsets {
		n -= min(p.subsets[i].partition, p.subsets[i].replicas)
	}
	return n
}

// rolledOut reports whether all pods are updated and ready.
func rolledOut(s *appsv1beta1.UnitedDeploymentStatus, p planned, a applied) bool {
	return a.revision == nil && len(missingSubsets(p, a)) == 0 && len(outdatedSubsets(p, a)) == 0 && s.UpdatedReadyReplicas >= p.wanted
}

// missingSubsets returns the subsets that have no workload, or a terminating one.
func missingSubsets(p planned, a applied) []string {
	var out []string
	for i := range p.subsets {
		if c, ok := a.children[p.subsets[i].name]; !ok || c.GetDeletionTimestamp() != nil {
			out = append(out, p.subsets[i].name)
		}
	}
	return out
}

// limitsInForce reports whether the controllers of workloads with maxUnavailable have observed it.
func limitsInForce(p planned, a applied) bool {
	for i := range p.subsets {
		t := &p.subsets[i]
		if c, ok := a.children[t.name]; ok && t.limit != nil && !c.specObserved() {
			return false
		}
	}
	return true
}

// outdatedSubsets returns the subsets whose workload is not at the update revision.
func outdatedSubsets(p planned, a applied) []string {
	var out []string
	for i := range p.subsets {
		if c, ok := a.children[p.subsets[i].name]; !ok || !revision.Same(c.revision, p.revision.Revision.Name) {
			out = append(out, p.subsets[i].name)
		}
	}
	return out
}

// failureOf returns the failure to report; nil if there is none.
func failureOf(p planned, a applied) *fault {
	switch {
	case p.fault != nil:
		return p.fault
	case a.joinAll() != nil:
		return &fault{reasonError, oneLine(a.joinAll())}
	case p.division.Ineffective:
		return &fault{reasonIneffective, "the replicas of the subsets have no effect: " + p.division.Why}
	case p.division.Unallocated > 0:
		return &fault{reasonUnallocated, p.division.Why}
	}
	return p.limit
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// mayWait reports whether a change of status may be written later. It may not if it ends a rollout, reports a failure or its end, or changes
// what the next reconcile must know: a condition or the reserved pods of a subset, or a collision.
func mayWait(old, s appsv1beta1.UnitedDeploymentStatus, p planned) bool {
	failure := func(s appsv1beta1.UnitedDeploymentStatus) string {
		for _, c := range s.Conditions {
			if c.Type == appsv1beta1.SubsetFailure && c.Status == corev1.ConditionTrue {
				return c.Reason
			}
		}
		return ""
	}
	all, updated := p.wanted, wantedUpdated(p)
	done := s.UpdatedReadyReplicas >= updated && s.AvailableReplicas == all && s.Replicas == all
	return !done && failure(old) == failure(s) && !subsetsChanged(old, s) && ptr.Equal(old.CollisionCount, s.CollisionCount)
}

// onlyBegun reports whether a rollout has begun but done nothing yet: no pod is ready at the update revision, and all wanted pods are
// available.
func onlyBegun(s appsv1beta1.UnitedDeploymentStatus, p planned) bool {
	all := p.wanted
	return all > 0 && s.UpdatedReadyReplicas == 0 && s.AvailableReplicas >= all
}

// subsetsChanged reports whether a subset's condition or its reserved pods have changed.
func subsetsChanged(old, s appsv1beta1.UnitedDeploymentStatus) bool {
	return slices.ContainsFunc(s.SubsetStatuses, func(line appsv1beta1.SubsetStatus) bool {
		before := ptr.Deref(lineOf(&old, line.Name), appsv1beta1.SubsetStatus{})
		return before.ReservedPods != line.ReservedPods || !apiequality.Semantic.DeepEqual(storedCondition(&old, line.Name), storedCondition(&s, line.Name))
	})
}

// conditions sets the conditions.
func conditions(s *appsv1beta1.UnitedDeploymentStatus, p planned, a applied, failure *fault, now time.Time) {
	set := func(t appsv1beta1.UnitedDeploymentConditionType, ok bool, reason, message string) {
		value := corev1.ConditionFalse
		if ok {
			value = corev1.ConditionTrue
		}
		c := appsv1beta1.UnitedDeploymentCondition{Type: t, Status: value, Reason: reason, Message: message}
		s.Conditions = united.SetCondition(s.Conditions, c, now)
	}
	if failure != nil {
		set(appsv1beta1.SubsetFailure, true, failure.reason, failure.message)
	} else {
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c appsv1beta1.UnitedDeploymentCondition) bool {
			return c.Type == appsv1beta1.SubsetFailure
		})
	}
	if p.fault != nil {
		return
	}
	progress := func(t appsv1beta1.UnitedDeploymentConditionType, open []string, err error, what string) {
		switch {
		case err != nil:
			set(t, false, reasonError, oneLine(err))
		case len(open) > 0:
			set(t, false, reasonWaiting, fmt.Sprintf("%s: %s", what, event.Names(open)))
		default:
			set(t, true, reasonAllSubsets, "")
		}
	}
	progress(appsv1beta1.SubsetProvisioned, missingSubsets(p, a), errors.Join(a.remove, a.duplicates), "subsets without a workload")
	failed := errors.Join(a.revision, a.write, a.render)
	progress(appsv1beta1.SubsetUpdated, outdatedSubsets(p, a), failed, "subsets at another revision")
	s.Conditions = united.SetCondition(s.Conditions, united.Updated(s), now)
}

// readiness reports whether the pods of all subsets are as the spec wants them. Numbers of subsets that have no effect don't prevent
// readiness, because every replica is in some subset.
func readiness(s *appsv1beta1.UnitedDeploymentStatus, p planned, a applied) report.Readiness {
	switch {
	case p.fault != nil:
		return report.Stalled(report.Failure{Reason: p.fault.reason, Message: p.fault.message})
	case a.render != nil: // No retry fixes it.
		return report.Stalled(report.Failure{Reason: reasonError, Message: oneLine(a.render)})
	case a.joinAll() != nil:
		return report.Retrying(report.Failure{Reason: reasonError, Message: oneLine(a.joinAll())})
	case p.division.Unallocated > 0:
		return report.Stalled(report.Failure{Reason: reasonUnallocated, Message: p.division.Why})
	case a.late || len(missingSubsets(p, a)) > 0 || len(outdatedSubsets(p, a)) > 0,
		s.UpdatedReadyReplicas < wantedUpdated(p) || s.AvailableReplicas < p.wanted || s.Replicas != p.wanted:
		return report.Reconciling(report.ReasonProgressing, "workloads or pods of subsets are being created, updated or deleted, or aren't available yet")
	}
	return report.Ready("the pods of all subsets are available and match the spec")
}

// eventsOf returns the events of a reconcile, one for each class of writes. A failure that only a new spec can fix is reported once, not by
// each reconcile.
func eventsOf(o observed, p planned, a applied, failure *fault) []event.Event {
	var out []event.Event
	for _, e := range []struct {
		what  string
		names []string
	}{{"created", a.created}, {"changed", a.updated}, {"deleted", a.removed}} {
		if len(e.names) > 0 {
			out = append(out, wroteEvent(e.what, e.names))
		}
	}
	if len(a.unstuck) > 0 {
		out = append(out, stuckEvent(a.unstuck))
	}
	for _, e := range []struct {
		err error
		say func(error) event.Event
	}{{a.revision, failedRevisionEvent}, {a.duplicates, failedDuplicateEvent}, {a.remove, failedEvent}, {a.write, failedEvent}, {a.rest, failedEvent}} {
		if e.err != nil {
			out = append(out, e.say(e.err))
		}
	}
	for i := range p.subsets {
		if t := &p.subsets[i]; t.room.turned {
			out = append(out, scheduleEvent(t.name, t.room.condition))
		}
	}
	if failure == nil || isReported(o.ud.Status.Conditions, failure) {
		return out
	}
	switch failure.reason {
	case reasonIneffective, reasonUnallocated:
		out = append(out, ineffectiveEvent(p.division.Why))
	case reasonError:
		if a.render != nil {
			out = append(out, failedEvent(a.render))
		}
	case reasonNotServed:
		out = append(out, notServedEvent(failure.message))
	}
	return out
}

func isReported(conditions []appsv1beta1.UnitedDeploymentCondition, f *fault) bool {
	return slices.ContainsFunc(conditions, func(c appsv1beta1.UnitedDeploymentCondition) bool {
		return c.Type == appsv1beta1.SubsetFailure && c.Status == corev1.ConditionTrue && c.Reason == f.reason
	})
}
