package workloadspread

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// unlimited is the missingReplicas of a subset without maxReplicas.
const unlimited = -1

// applied holds the results of applying the plans for slices and copies, and for the slices of younger WorkloadSpreads.
type applied struct {
	slices, copies placement.Summary
	younger        []placement.Summary
}

func (a applied) err() error {
	if a.slices.Err != nil {
		return a.slices.Err
	}
	return a.copies.Err
}

// status returns the new status of the WorkloadSpread.
func status(o *observed, p planned, a applied, now time.Time) appsv1beta1.WorkloadSpreadStatus {
	s := *o.ws.Status.DeepCopy()
	problems := slices.Concat(p.problems, a.slices.Problems, a.copies.Problems, a.slices.Blocked, a.copies.Blocked)
	set := func(kind string, ok bool, reason, message string) {
		s.Conditions = report.SetCondition(s.Conditions, metav1.Condition{
			Type: kind, Status: report.ConditionStatus(ok), Reason: reason, Message: report.Truncate(message), ObservedGeneration: o.ws.Generation,
		}, now)
	}
	switch {
	case o.ws.DeletionTimestamp != nil:
		set(appsv1beta1.WorkloadSpreadActive, false, reasonDeleting, p.slices.Deleting+": "+a.slices.Holders(problems)+"; the workload keeps running")
	case p.inactive != nil:
		s.ObservedGeneration, s.SubsetStatuses = o.ws.Generation, nil // Nothing is counted.
		set(appsv1beta1.WorkloadSpreadActive, false, p.inactive.Reason, p.inactive.Message)
		set(appsv1beta1.WorkloadSpreadPlaced, false, p.inactive.Reason, p.inactive.Message)
	default:
		lagging, stale := a.lagging(), a.stale()
		s.SubsetStatuses = placement.Worst(p.lines(o, stale, &problems, now), rankOf)
		s.VersionedSubsetStatuses = nil
		// If no row is wanted, the conditions have the reason, unless the report of a cluster is missing.
		if lagging == 0 && a.err() == nil && (len(p.slices.Wants) > 0 || len(stale) == 0) {
			s.ObservedGeneration = o.ws.Generation
		}
		set(appsv1beta1.WorkloadSpreadActive, true, reasonPlacing,
			"the workload does not run in this cluster: its replicas are placed in the clusters of the subsets")
		p.placed(set, lagging)
	}
	switch {
	case a.err() != nil:
		set(appsv1beta1.WorkloadSpreadFailure, true, "Error", a.err().Error())
	case len(problems) > 0:
		set(appsv1beta1.WorkloadSpreadFailure, true, problems[0].Reason, placement.Describe(problems))
	default:
		set(appsv1beta1.WorkloadSpreadFailure, false, "NoFailure", "")
	}
	s.Conditions = report.SetReadiness(s.Conditions, readiness(o, p, a, problems, &s), o.ws.Generation, now)
	return s
}

// readiness returns whether the replicas are placed as the subsets specify. The workload's status says whether they are available.
func readiness(o *observed, p planned, a applied, problems []placement.Problem, s *appsv1beta1.WorkloadSpreadStatus) report.Readiness {
	if o.ws.DeletionTimestamp != nil {
		return report.Reconciling(reasonDeleting, p.slices.Deleting)
	}
	if r, ok := placement.Readiness(a.err(), problems); ok {
		return r
	}
	placed := report.GetCondition(s.Conditions, appsv1beta1.WorkloadSpreadPlaced)
	switch {
	case placed == nil || placed.Status == metav1.ConditionTrue:
		return report.Ready("the replicas are placed as the subsets specify")
	case p.inactive != nil && p.inactive.Reason == reasonTargetGone: // The target may be created after its WorkloadSpread.
		return report.Reconciling(placed.Reason, placed.Message)
	case p.inactive != nil, p.allocation.Why != "", placed.Reason == reasonNoCluster:
		return report.Stalled(report.Failure{Reason: placed.Reason, Message: placed.Message})
	}
	return report.Reconciling(placed.Reason, placed.Message)
}

// placed sets the condition Placed.
func (p planned) placed(set func(kind string, ok bool, reason, message string), lagging int) {
	const kind = appsv1beta1.WorkloadSpreadPlaced
	switch {
	case p.allocation.Why != "":
		set(kind, false, "BoundsUnsatisfiable", p.allocation.Why)
	case len(p.moves) > 0:
		set(kind, false, "Moving", placement.Shorten(p.moves))
	case len(p.parts) == 0:
		set(kind, false, reasonNoCluster, "no subset has a cluster to run in")
	case lagging > 0:
		set(kind, false, "Waiting", placement.Lagging(lagging))
	default:
		set(kind, true, "AllPlaced", "")
	}
}

// stale returns the clusters that don't answer, so that their numbers are out of date. The plan for the copies includes the clusters of the
// slices.
func (a applied) stale() map[string]bool { return a.copies.Stale }

// lagging counts the clusters that answer and have not applied their current rows.
func (a applied) lagging() int {
	behind := map[string]bool{}
	for _, cluster := range slices.Concat(a.slices.Lagging, a.copies.Lagging) {
		if !a.stale()[cluster] {
			behind[cluster] = true
		}
	}
	return len(behind)
}

// lines returns the statuses of the subsets in their clusters. It doesn't trust reports of members: implausible numbers are limited to
// plausible ones, and become a problem of that cluster.
func (p planned) lines(o *observed, stale map[string]bool, problems *[]placement.Problem, now time.Time) []appsv1beta1.WorkloadSpreadSubsetStatus {
	sites, running := make(map[string]*site, len(p.sites)), map[string]int32{}
	for _, s := range p.sites {
		sites[s.cluster] = s
	}
	out := make([]appsv1beta1.WorkloadSpreadSubsetStatus, 0, len(p.parts))
	for _, part := range p.parts {
		at := sites[part.Cluster]
		reported := placement.PlausibleFor(max(at.grant.Replicas, at.grant.Upper))
		line := appsv1beta1.WorkloadSpreadSubsetStatus{
			Name: part.name(), Cluster: part.Cluster, Stale: stale[part.Cluster] || at.state == allot.Frozen,
			Replicas: reported.Cut(part.counts.Replicas), UnschedulableReplicas: reported.Cut(part.counts.Unschedulable), MissingReplicas: unlimited,
		}
		running[part.Subset] += line.Replicas
		if c := at.condition(o.ws.Generation); c != nil {
			line.Conditions = report.SetCondition(o.previousConditions(line), *c, now)
		}
		if reported.Nonsense {
			*problems = append(*problems, placement.Problem{
				Subset: part.Subset, Cluster: part.Cluster, Reason: fleetv1alpha1.ReasonImplausibleCounts,
				Message: fmt.Sprintf("the cluster reports implausible numbers, which were clamped (replicas: %d)", at.grant.Replicas),
			})
		}
		out = append(out, line)
	}
	for i, part := range p.parts {
		if part.most != nil {
			out[i].MissingReplicas = max(int32(min(*part.most, 1<<30))-running[part.Subset], 0) //nolint:gosec // bounded
		}
	}
	return out
}

// previousConditions returns the previously reported conditions of a line.
func (o *observed) previousConditions(line appsv1beta1.WorkloadSpreadSubsetStatus) []metav1.Condition {
	for _, previous := range o.ws.Status.SubsetStatuses {
		if previous.Name == line.Name && previous.Cluster == line.Cluster {
			return previous.Conditions
		}
	}
	return nil
}

// rankOf ranks the lines of a status. The lowest ranks are kept if there are too many lines.
func rankOf(line appsv1beta1.WorkloadSpreadSubsetStatus) int {
	switch {
	case line.Stale || line.UnschedulableReplicas > 0:
		return 0
	case line.Replicas > 0:
		return 1
	}
	return 2
}

// takenStatus returns the status of a WorkloadSpread whose target already has an older one.
func takenStatus(ws, older *appsv1beta1.WorkloadSpread, now time.Time) appsv1beta1.WorkloadSpreadStatus {
	s := *ws.Status.DeepCopy()
	s.ObservedGeneration, s.SubsetStatuses = ws.Generation, nil // Nothing is counted.
	why := older.Name + " already has this target: delete one of the two"
	for _, kind := range []string{appsv1beta1.WorkloadSpreadActive, appsv1beta1.WorkloadSpreadPlaced} {
		s.Conditions = report.SetCondition(s.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reasonTargetTaken, ObservedGeneration: ws.Generation, Message: why,
		}, now)
	}
	s.Conditions = report.SetReadiness(s.Conditions, report.Stalled(report.Failure{Reason: reasonTargetTaken, Message: why}), ws.Generation, now)
	return s
}

// cloneSetStatus returns the status of a CloneSet that is a template: sums over its copies, for the scale subresource and for people. Pods in
// a cluster that doesn't answer count as existing and updated, which is most likely, but not as ready or available.
func cloneSetStatus(o *observed, p planned, a applied) appsv1beta1.CloneSetStatus {
	set := o.target.(*appsv1beta1.CloneSet)
	s := appsv1beta1.CloneSetStatus{
		ObservedGeneration: set.Status.ObservedGeneration, LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector),
	}
	stale, revisions := a.stale(), map[string]bool{}
	for cluster, row := range a.copies.Rows {
		reported := placement.PlausibleFor(row.Spec.Grant.Replicas)
		c := row.Status.Counts
		s.Replicas += reported.Cut(c.Replicas)
		s.UpdatedReplicas += reported.Cut(c.Updated)
		if stale[cluster] {
			continue
		}
		s.ReadyReplicas += reported.Cut(c.Ready)
		s.AvailableReplicas += reported.Cut(c.Available)
		s.UpdatedReadyReplicas += reported.Cut(c.UpdatedReady)
		if placement.Acknowledged(row) && row.Status.Revision != "" {
			revisions[row.Status.Revision] = true
		}
	}
	for _, site := range p.sites {
		s.ExpectedUpdatedReplicas += site.grant.Replicas - site.grant.Partition
	}
	if len(revisions) == 1 { // The template is the same bytes everywhere, and so is the hash.
		for name := range revisions {
			s.UpdateRevision = name
		}
	}
	if len(a.copies.Lagging) == 0 && a.copies.Err == nil && len(p.moves) == 0 && p.inactive == nil {
		s.ObservedGeneration = set.Generation
	}
	return s
}
