package resourcedistribution

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// conditionTypes returns all condition types, in the order in which a status has them.
func conditionTypes() []appsv1beta1.ResourceDistributionConditionType {
	return []appsv1beta1.ResourceDistributionConditionType{
		appsv1beta1.ResourceDistributionGetResourceFailed, appsv1beta1.ResourceDistributionCreateResourceFailed,
		appsv1beta1.ResourceDistributionUpdateResourceFailed, appsv1beta1.ResourceDistributionDeleteResourceFailed,
		appsv1beta1.ResourceDistributionConflictOccurred, appsv1beta1.ResourceDistributionNamespaceNotExists,
	}
}

// status returns the new status, and the events.
func status(o observed, p planned, a applied, now time.Time) (appsv1beta1.ResourceDistributionStatus, []event.Event) {
	removals := a.namespaces(done, appsv1beta1.ResourceDistributionDeleteResourceFailed)
	s := appsv1beta1.ResourceDistributionStatus{
		Desired: int32(len(p.desired)), ObservedGeneration: o.rd.Generation, //nolint:gosec // A cluster has fewer namespaces.
		Succeeded: int32(len(p.good) + len(a.namespaces(done, "")) - len(removals)), //nolint:gosec // Likewise.
	}
	s.Failed = s.Desired - s.Succeeded
	var events []event.Event
	for _, kind := range conditionTypes() {
		c := condition(kind, p, a)
		old := find(o.rd.Status.Conditions, kind)
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		s.Conditions = append(s.Conditions, c)
		if c.Status == metav1.ConditionTrue && (old == nil || old.Status != c.Status || old.Reason != c.Reason) {
			events = append(events, event.Warning(string(kind), actionDistribute, "%s: %s: %s", c.Reason, c.Message, event.Names(c.FailedNamespaces)))
		}
	}
	s.Conditions = append(s.Conditions, report.OnlyReadiness(o.rd.Status.Conditions, report.DistributionForm())...)
	s.Conditions = report.PutReadiness(s.Conditions, report.DistributionForm(), readiness(&s), now)
	old := &o.rd.Status
	changed := old.ObservedGeneration != s.ObservedGeneration || old.Succeeded != s.Succeeded || old.Failed > 0
	if s.Failed == 0 && p.lacking == nil && len(events) == 0 && changed {
		events = append(events, event.Normal(reasonDistributed, actionDistribute, "distributed to %d namespace(s): %s", s.Succeeded, o.resource.id))
	}
	return s, events
}

// readiness reports whether all namespaces have their copy. Another object in place of a copy, a missing namespace and a resource that can't
// be obtained need a user; other failures are retried.
func readiness(s *appsv1beta1.ResourceDistributionStatus) report.Readiness {
	var failing *appsv1beta1.ResourceDistributionCondition
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Status != metav1.ConditionTrue || !slices.Contains(conditionTypes(), c.Type) {
			continue
		}
		switch c.Type { //nolint:exhaustive // The others are about writes.
		case appsv1beta1.ResourceDistributionConflictOccurred, appsv1beta1.ResourceDistributionNamespaceNotExists,
			appsv1beta1.ResourceDistributionGetResourceFailed:
			return report.Stalled(report.Failure{Reason: c.Reason, Message: c.Message})
		}
		if failing == nil {
			failing = c
		}
	}
	switch {
	case failing != nil:
		return report.Reconciling(failing.Reason, failing.Message)
	case s.Failed > 0:
		return report.Reconciling(report.ReasonProgressing, "namespaces have yet to get their copy")
	}
	return report.Ready("all namespaces have their copy")
}

// condition returns a condition without its time.
func condition(kind appsv1beta1.ResourceDistributionConditionType, p planned, a applied) appsv1beta1.ResourceDistributionCondition {
	c := appsv1beta1.ResourceDistributionCondition{Type: kind, Status: metav1.ConditionFalse, Reason: reasonSucceeded}
	fail := func(reason, message string, namespaces []string) appsv1beta1.ResourceDistributionCondition {
		c.Status, c.Reason, c.Message, c.FailedNamespaces = metav1.ConditionTrue, reason, report.Truncate(message), namespaces
		return c
	}
	switch {
	case p.blocked != nil && p.blocked.kind == kind:
		return fail(p.blocked.reason, p.blocked.message, p.desired)
	case p.lacking != nil && p.lacking.kind == kind:
		return fail(p.lacking.reason, p.lacking.message, p.kept)
	}
	switch kind { //nolint:exhaustive // The others are about writes.
	case appsv1beta1.ResourceDistributionConflictOccurred:
		all := append(slices.Clone(p.taken), a.namespaces(taken, "")...)
		if slices.Sort(all); len(all) > 0 {
			return fail(reasonConflict, "an object with that kind and name exists that is not a copy: delete or rename it, or exclude the namespace", all)
		}
	case appsv1beta1.ResourceDistributionNamespaceNotExists:
		all := append(slices.Clone(p.missing), a.namespaces(noNamespace, "")...)
		if slices.Sort(all); len(all) > 0 {
			return fail(reasonNamespaceNotFound, "the namespace doesn't exist or is being deleted", all)
		}
	default:
		i := slices.IndexFunc(a.writes, func(w write) bool { return w.kind == kind && w.err != nil })
		if i >= 0 {
			return fail(reasonOf(a.writes[i].err), a.writes[i].err.Error(), a.namespaces(failed, kind))
		}
	}
	return c
}

func find(
	all []appsv1beta1.ResourceDistributionCondition, kind appsv1beta1.ResourceDistributionConditionType,
) *appsv1beta1.ResourceDistributionCondition {
	i := slices.IndexFunc(all, func(c appsv1beta1.ResourceDistributionCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &all[i]
}
