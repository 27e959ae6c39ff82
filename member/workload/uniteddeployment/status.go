package uniteddeployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// Reasons of conditions.
const (
	reasonError           = "Error"
	reasonNotServed       = "NotServed"
	reasonIneffective     = "SpecifySubsetReplicas"
	reasonUnallocated     = "UnallocatedReplicas"
	reasonAllSubsets      = "AllSubsets"
	reasonWaiting         = "Waiting"
	reasonRevisionUpdated = "UnitedDeploymentRevisionUpdated"
	reasonUpdating        = "Updating"
)

// status returns the status after a reconcile, and what to tell about it. The function is pure.
//
// observedGeneration advances only when every workload is as the spec asks and the apiserver has said so: a hub counts
// with it. Subsets whose numbers do not add up count as acted on, because all else was done.
func status(o observed, w planned, d applied, now time.Time) (appsv1beta1.UnitedDeploymentStatus, []event.Event) {
	s := *o.ud.Status.DeepCopy()
	if d.collided {
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return s, nil
	}
	s.LabelSelector = metav1.FormatLabelSelector(o.ud.Spec.Selector)
	if w.fault == nil {
		if d.revision == nil {
			s.UpdatedRevision = w.revision.Revision.Name
		}
		sum(&s, w, d)
		if s.CurrentRevision == "" || rolledOut(&s, w, d) {
			s.CurrentRevision = s.UpdatedRevision
		}
		if d.any() == nil && !d.late && len(missing(w, d)) == 0 {
			s.ObservedGeneration = o.ud.Generation
		}
	}
	failure := failureOf(w, d)
	conditions(&s, w, d, failure, now)
	return s, tell(o, w, d, failure)
}

// sum counts the pods of all workloads. Those at the updated revision are counted only where the workload's controller
// has seen the template, because until then its counts are about the former one.
func sum(s *appsv1beta1.UnitedDeploymentStatus, w planned, d applied) {
	var all counts
	s.SubsetStatuses = make([]appsv1beta1.SubsetStatus, 0, len(w.subsets))
	for i := range w.subsets {
		t := &w.subsets[i]
		line := appsv1beta1.SubsetStatus{Name: t.name, Replicas: t.replicas, Partition: t.partition}
		if c, ok := d.children[t.name]; ok {
			line.ReadyReplicas, line.AvailableReplicas = c.ready, c.available
			if c.at(s.UpdatedRevision) {
				line.UpdatedReplicas, line.UpdatedReadyReplicas = c.updated, c.updatedReady
			}
			all.pods += c.pods
		}
		all.ready += line.ReadyReplicas
		all.available += line.AvailableReplicas
		all.updated += line.UpdatedReplicas
		all.updatedReady += line.UpdatedReadyReplicas
		s.SubsetStatuses = append(s.SubsetStatuses, line)
	}
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = all.pods, all.ready, all.available
	s.UpdatedReplicas, s.UpdatedReadyReplicas = all.updated, all.updatedReady
}

// wanted is how many replicas all subsets are to have.
func wanted(w planned) int32 {
	var n int32
	for i := range w.subsets {
		n += w.subsets[i].replicas
	}
	return n
}

// rolledOut tells whether all pods are updated and ready.
func rolledOut(s *appsv1beta1.UnitedDeploymentStatus, w planned, d applied) bool {
	return d.revision == nil && len(missing(w, d)) == 0 && len(behind(w, d)) == 0 && s.UpdatedReadyReplicas >= wanted(w)
}

// missing are the subsets without a workload, or with one that is going.
func missing(w planned, d applied) []string {
	var out []string
	for i := range w.subsets {
		if c, ok := d.children[w.subsets[i].name]; !ok || c.GetDeletionTimestamp() != nil {
			out = append(out, w.subsets[i].name)
		}
	}
	return out
}

// behind are the subsets whose workload is not at the update revision.
func behind(w planned, d applied) []string {
	var out []string
	for i := range w.subsets {
		if c, ok := d.children[w.subsets[i].name]; !ok || !revision.Same(c.revision, w.revision.Revision.Name) {
			out = append(out, w.subsets[i].name)
		}
	}
	return out
}

// failureOf is what stands in the way; nil if nothing does.
func failureOf(w planned, d applied) *fault {
	switch {
	case w.fault != nil:
		return w.fault
	case d.any() != nil:
		return &fault{reasonError, oneLine(d.any())}
	case w.division.Ineffective:
		return &fault{reasonIneffective, "the numbers of the subsets have no effect: " + w.division.Why}
	case w.division.Unallocated > 0:
		return &fault{reasonUnallocated, w.division.Why}
	}
	return nil
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// conditions writes the summary that people read first.
func conditions(s *appsv1beta1.UnitedDeploymentStatus, w planned, d applied, failure *fault, now time.Time) {
	set := func(t appsv1beta1.UnitedDeploymentConditionType, ok bool, reason, message string) {
		value := corev1.ConditionFalse
		if ok {
			value = corev1.ConditionTrue
		}
		setCondition(s, appsv1beta1.UnitedDeploymentCondition{Type: t, Status: value, Reason: reason, Message: message}, now)
	}
	if failure != nil {
		set(appsv1beta1.SubsetFailure, true, failure.reason, failure.message)
	} else {
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c appsv1beta1.UnitedDeploymentCondition) bool {
			return c.Type == appsv1beta1.SubsetFailure
		})
	}
	if w.fault != nil {
		return
	}
	verdict := func(t appsv1beta1.UnitedDeploymentConditionType, open []string, err error, what string) {
		switch {
		case err != nil:
			set(t, false, reasonError, oneLine(err))
		case len(open) > 0:
			set(t, false, reasonWaiting, fmt.Sprintf("%s: %s", what, event.Names(open)))
		default:
			set(t, true, reasonAllSubsets, "")
		}
	}
	verdict(appsv1beta1.SubsetProvisioned, missing(w, d), errors.Join(d.remove, d.duplicates), "subsets without a workload")
	failed := errors.Join(d.revision, d.write, d.render)
	verdict(appsv1beta1.SubsetUpdated, behind(w, d), failed, "subsets at another revision")
	if s.UpdatedRevision != "" && s.CurrentRevision == s.UpdatedRevision {
		set(appsv1beta1.UnitedDeploymentUpdated, true, reasonRevisionUpdated, "updated to revision "+s.UpdatedRevision)
	} else {
		set(appsv1beta1.UnitedDeploymentUpdated, false, reasonUpdating, fmt.Sprintf("%d of %d replicas are ready at revision %s",
			s.UpdatedReadyReplicas, wanted(w), s.UpdatedRevision))
	}
}

// setCondition sets a condition; its time moves when its status does.
func setCondition(s *appsv1beta1.UnitedDeploymentStatus, c appsv1beta1.UnitedDeploymentCondition, now time.Time) {
	c.Message = report.Truncate(c.Message)
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	i := slices.IndexFunc(s.Conditions, func(is appsv1beta1.UnitedDeploymentCondition) bool { return is.Type == c.Type })
	if i < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if s.Conditions[i].Status == c.Status {
		c.LastTransitionTime = s.Conditions[i].LastTransitionTime
	}
	s.Conditions[i] = c
}

// tell returns the events of a reconcile: one for each class of writes. What only the spec can mend is told once, not with
// each reconcile.
func tell(o observed, w planned, d applied, failure *fault) []event.Event {
	var out []event.Event
	for _, e := range []struct {
		what  string
		names []string
	}{{"created", d.created}, {"changed", d.updated}, {"deleted", d.removed}} {
		if len(e.names) > 0 {
			out = append(out, wroteEvent(e.what, e.names))
		}
	}
	if len(d.unstuck) > 0 {
		out = append(out, stuckEvent(d.unstuck))
	}
	for _, e := range []struct {
		err error
		say func(error) event.Event
	}{{d.revision, failedRevisionEvent}, {d.duplicates, failedDuplicateEvent}, {d.remove, failedEvent}, {d.write, failedEvent}, {d.rest, failedEvent}} {
		if e.err != nil {
			out = append(out, e.say(e.err))
		}
	}
	if failure == nil || known(o.ud.Status.Conditions, failure) {
		return out
	}
	switch failure.reason {
	case reasonIneffective, reasonUnallocated:
		out = append(out, ineffectiveEvent(w.division.Why))
	case reasonError:
		if d.render != nil {
			out = append(out, failedEvent(d.render))
		}
	case reasonNotServed:
		out = append(out, notServedEvent(failure.message))
	}
	return out
}

func known(conditions []appsv1beta1.UnitedDeploymentCondition, f *fault) bool {
	return slices.ContainsFunc(conditions, func(c appsv1beta1.UnitedDeploymentCondition) bool {
		return c.Type == appsv1beta1.SubsetFailure && c.Status == corev1.ConditionTrue && c.Reason == f.reason
	})
}
