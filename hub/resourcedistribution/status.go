package resourcedistribution

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Limits of a status.
const (
	// shown is how many clusters a status lists.
	shown = 20
	// mostNamespaces is the maximum number of namespaces that a member may report: ten times as many as Kubernetes is tested with.
	mostNamespaces = 100_000
	// lineLimit is the maximum length of a message about a cluster, in bytes.
	lineLimit = 256
)

type line = appsv1beta1.ResourceDistributionClusterStatus

// status returns the new status of the object. It doesn't trust what members report, and limits numbers to plausible values.
func status(o *observed, p planned, a placement.Summary, now time.Time) appsv1beta1.ResourceDistributionStatus {
	s := *o.rd.Status.DeepCopy()
	problems, failures := slices.Concat(p.problems, a.Problems), []placement.Problem(nil)
	for _, b := range a.Blocked {
		if a.Rows[b.Cluster].Status.Phase == fleetv1alpha1.WorkBlocked {
			problems = append(problems, b)
		} else {
			failures = append(failures, b)
		}
	}
	lines, nonsense := linesOf(o, p, a, slices.Concat(problems, failures))
	failures = append(failures, nonsense...)

	var desired, succeeded int64
	for _, l := range lines {
		desired, succeeded = desired+int64(l.Desired), succeeded+int64(l.Succeeded)
	}
	s.Desired, s.Succeeded = int32(min(desired, math.MaxInt32)), int32(min(succeeded, math.MaxInt32))
	s.Failed = s.Desired - s.Succeeded
	s.SelectedClusters, s.StaleClusters = int32(len(p.selected)), int32(len(a.Stale)) //nolint:gosec // counts of clusters
	s.Clusters = worst(lines)
	if a.Observed {
		s.ObservedGeneration = o.rd.Generation
	}
	s.Conditions = setConditions(o, p, a, problems, failures, now)
	s.Conditions = append(s.Conditions, report.OnlyReadiness(o.rd.Status.Conditions, report.DistributionForm())...)
	s.Conditions = report.PutReadiness(s.Conditions, report.DistributionForm(), readiness(&s, p, a, slices.Concat(problems, failures)), now)
	return s
}

// readiness returns whether all namespaces of all clusters have their copy.
func readiness(s *appsv1beta1.ResourceDistributionStatus, p planned, a placement.Summary, problems []placement.Problem) report.Readiness {
	if p.Deleting != "" {
		return report.Reconciling(reasonDeleting, p.Deleting)
	}
	if r, ok := placement.Readiness(a.Err, problems); ok {
		return r
	}
	if len(a.Lagging) > 0 || len(a.Stale) > 0 || s.Failed > 0 {
		return report.Reconciling(report.ReasonProgressing, "some namespaces of clusters do not have their copy yet")
	}
	return report.Ready("all namespaces of all clusters have their copy")
}

// linesOf returns a line for each cluster that is selected or has a row, and a problem for each that reports implausible numbers.
func linesOf(o *observed, p planned, a placement.Summary, problems []placement.Problem) (lines []line, nonsense []placement.Problem) {
	why, before := map[string]placement.Problem{}, map[string]int64{}
	for _, problem := range problems {
		if _, has := why[problem.Cluster]; !has {
			why[problem.Cluster] = problem
		}
	}
	for _, l := range o.rd.Status.Clusters {
		before[l.Cluster] = l.ObservedGeneration
	}
	withdrawn := map[string]bool{}
	for _, w := range p.Withdrawals {
		withdrawn[w.Row.Labels[keys.FleetCluster]] = true
	}
	clusters := slices.AppendSeq(slices.Clone(p.selected), maps.Keys(a.Rows))
	slices.Sort(clusters)
	for _, cluster := range slices.Compact(clusters) {
		l := line{Cluster: cluster, Stale: a.Stale[cluster], ObservedGeneration: before[cluster]}
		if row := a.Rows[cluster]; row != nil && !withdrawn[cluster] {
			limit := most(o.rd)
			desired, succeeded := row.Status.Counts.Desired, row.Status.Counts.Available
			l.Desired = max(min(desired, limit), 0)
			l.Succeeded = max(min(succeeded, l.Desired), 0)
			l.Failed = l.Desired - l.Succeeded
			if l.Desired != desired || l.Succeeded != succeeded {
				nonsense = append(nonsense, placement.Problem{
					Cluster: cluster, Reason: fleetv1alpha1.ReasonImplausibleCounts,
					Message: fmt.Sprintf("the cluster reports implausible numbers of namespaces, which were clamped to %d of %d", l.Succeeded, l.Desired),
				})
				l.Reason, l.Message = fleetv1alpha1.ReasonImplausibleCounts, nonsense[len(nonsense)-1].Message
			}
		}
		if a.Applied[cluster] && !withdrawn[cluster] {
			l.ObservedGeneration = o.rd.Generation
		}
		if problem, has := why[cluster]; has {
			l.Reason, l.Message = problem.Reason, problem.Message
		}
		if l.Reason == "" && withdrawn[cluster] {
			l.Reason = reasonWithdrawing
		}
		if l.Reason == "" && l.Stale {
			l.Reason, l.Message = o.Silent(cluster)
		}
		l.Message = event.Truncate(l.Message, lineLimit)
		lines = append(lines, l)
	}
	return lines, nonsense
}

// most returns the maximum number of namespaces that a cluster can report for an object.
func most(rd *appsv1beta1.ResourceDistribution) int32 {
	if open(&rd.Spec.Targets) {
		return mostNamespaces
	}
	return int32(len(rd.Spec.Targets.IncludedNamespaces.List)) //nolint:gosec // An object has fewer.
}

// worst returns the first lines. Lines with a reason come before those that lack copies.
func worst(lines []line) []line {
	rank := func(l line) int {
		switch {
		case l.Reason == reasonWithdrawing:
			return 2
		case l.Reason != "" || l.Stale:
			return 0
		case l.Failed > 0:
			return 1
		default:
			return 3
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(rank(a), rank(b)) })
	return lines[:min(len(lines), shown)]
}

// setConditions returns the conditions.
func setConditions(
	o *observed, p planned, a placement.Summary, problems, failures []placement.Problem, now time.Time,
) []appsv1beta1.ResourceDistributionCondition {
	var out []appsv1beta1.ResourceDistributionCondition
	set := func(kind appsv1beta1.ResourceDistributionConditionType, ok bool, reason, message string) {
		c := appsv1beta1.ResourceDistributionCondition{
			Type: kind, Status: report.ConditionStatus(ok), Reason: reason, Message: report.Truncate(message),
			LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		if previous := find(o.rd.Status.Conditions, kind); previous != nil && previous.Status == c.Status {
			c.LastTransitionTime = previous.LastTransitionTime
		}
		out = append(out, c)
	}
	setProblems := func(kind appsv1beta1.ResourceDistributionConditionType, problems []placement.Problem) {
		if len(problems) == 0 {
			set(kind, false, reasonSucceeded, "")
			return
		}
		set(kind, true, problems[0].Reason, placement.Describe(problems))
	}
	if a.Err != nil {
		set(appsv1beta1.ResourceDistributionPlacementFailed, true, reasonError, a.Err.Error())
	} else {
		setProblems(appsv1beta1.ResourceDistributionPlacementFailed, problems)
	}
	setProblems(appsv1beta1.ResourceDistributionCopyFailed, failures)
	if p.Deleting != "" {
		set(appsv1beta1.ResourceDistributionWithdrawing, true, reasonDeleting, p.Deleting+": "+a.Holders(problems))
	}
	return out
}
