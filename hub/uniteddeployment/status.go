package uniteddeployment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// status returns the new status of the object.
func status(o *observed, p planned, a placement.Summary, now time.Time) appsv1beta1.UnitedDeploymentStatus {
	s := *o.ud.Status.DeepCopy()
	if errors.Is(a.Err, revision.ErrCollision) { // With another count, the next plan gives the revision another name.
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return s
	}
	if errors.Is(a.Err, placement.ErrPlanAgain) { // A wave is about to begin.
		s.Rollout = p.rollout.status()
		return s
	}
	if p.runsHere {
		setConditions(p, a, p.problems, &s, now)
		return s
	}
	s.SubsetStatuses = nil
	s.LabelSelector = metav1.FormatLabelSelector(o.ud.Spec.Selector)
	s.UnallocatedReplicas = int32(p.allocation.Unallocated) //nolint:gosec // at most spec.replicas
	s.StaleClusters = int32(len(a.Stale))                   //nolint:gosec // a count of clusters
	problems := slices.Concat(p.problems, a.Problems, a.Blocked)
	s.Rollout = nil
	if p.rollout != nil {
		s.Rollout = p.rollout.status()
	}
	subsets, running := subsetStatuses(o, p, a, &problems)
	sumSubsets(&s, subsets)
	s.Replicas = running
	s.SubsetStatuses = placement.Worst(subsets, rankOf)
	if p.Deleting == "" {
		setRevisions(p, a, &s)
	}
	if a.Observed {
		s.ObservedGeneration = o.ud.Generation
	}
	setConditions(p, a, problems, &s, now)
	s.Conditions = report.PutReadiness(s.Conditions, united.Form(), readiness(p, a.Err, problems, &s), now)
	return s
}

// readiness returns whether the replicas in all clusters are as the spec wants.
func readiness(p planned, failed error, problems []placement.Problem, s *appsv1beta1.UnitedDeploymentStatus) report.Readiness {
	if p.Deleting != "" {
		return report.Reconciling(reasonDeleting, p.Deleting)
	}
	if r, ok := placement.Readiness(failed, problems); ok {
		return r
	}
	var granted int32
	for _, part := range p.parts {
		granted += part.grant.Replicas
	}
	placed := find(s.Conditions, appsv1beta1.UnitedDeploymentPlaced)
	switch {
	case p.allocation.Why != "", placed != nil && placed.Reason == reasonNoCluster:
		return report.Stalled(report.Failure{Reason: placed.Reason, Message: placed.Message})
	case complete(*s) && s.AvailableReplicas >= granted:
		return report.Ready("the replicas of all clusters are available and as specified")
	}
	return report.Reconciling(report.ReasonProgressing, "replicas are being created, updated, moved or deleted, or are not available yet")
}

// hasJustBegun reports whether the status is the first one after a complete object was changed, and nothing is affected yet: every replica is
// where it should run and is available. The number of updated pods says little at that point, because pods in clusters that have not applied
// their part count as before.
func hasJustBegun(before, after appsv1beta1.UnitedDeploymentStatus) bool {
	placed, granted := find(after.Conditions, appsv1beta1.UnitedDeploymentPlaced), int32(0)
	for _, line := range after.SubsetStatuses {
		granted += line.Replicas
	}
	if waits := after.Rollout; waits != nil && waits.Message != "" && (before.Rollout == nil || before.Rollout.Message != waits.Message) {
		return false // Whoever pauses a rollout waits for the answer.
	}
	return complete(before) && placed != nil && placed.Status == corev1.ConditionTrue && after.AvailableReplicas >= granted
}

// complete reports whether nothing is left to do in any cluster.
func complete(s appsv1beta1.UnitedDeploymentStatus) bool {
	for _, t := range []appsv1beta1.UnitedDeploymentConditionType{
		appsv1beta1.SubsetProvisioned, appsv1beta1.SubsetUpdated, appsv1beta1.UnitedDeploymentPlaced,
	} {
		if c := find(s.Conditions, t); c == nil || c.Status != corev1.ConditionTrue {
			return false
		}
	}
	return s.AvailableReplicas >= s.Replicas && s.UpdatedReadyReplicas >= s.UpdatedReplicas
}

// reasonDeleting is the reason of conditions of an object that is being deleted.
const reasonDeleting = "Deleting"

// subsetStatuses returns the statuses of the parts, and the total number of pods. It doesn't trust reports of members: implausible numbers
// are limited to plausible ones, and become a problem of that cluster.
func subsetStatuses(o *observed, p planned, a placement.Summary, problems *[]placement.Problem) ([]appsv1beta1.SubsetStatus, int32) {
	out, before := make([]appsv1beta1.SubsetStatus, 0, len(p.parts)), observedBefore(o.ud)
	var running int32
	for _, part := range p.parts {
		if part.leftover && part.grant.Replicas == 0 && part.counts.Replicas == 0 {
			continue
		}
		reported := placement.PlausibleFor(max(part.grant.Replicas, part.grant.Upper))
		line := appsv1beta1.SubsetStatus{
			Name: part.name, Cluster: part.Cluster, Stale: a.Stale[part.Cluster],
			Replicas:                 part.grant.Replicas,
			ReadyReplicas:            reported.Cut(part.counts.Ready),
			AvailableReplicas:        reported.Cut(part.counts.Available),
			UpdatedReplicas:          reported.Cut(part.counts.Updated),
			UpdatedReadyReplicas:     reported.Cut(part.counts.UpdatedReady),
			UpdatedAvailableReplicas: reported.Cut(part.counts.UpdatedAvailable),
			Partition:                part.grant.Partition,
		}
		if part.outdated {
			line.UpdatedReplicas, line.UpdatedReadyReplicas, line.UpdatedAvailableReplicas = 0, 0, 0
		}
		running += reported.Cut(part.counts.Replicas)
		line.ObservedGeneration = before[subsetAt{part.name, part.Cluster}]
		if a.Applied[part.Cluster] {
			line.ObservedGeneration = o.ud.Generation
		}
		if !line.Stale && line.ObservedGeneration < o.ud.Status.ObservedGeneration {
			// The cluster did not answer when the others had applied this generation, and now reports pods of an earlier one. Clients that wait for
			// observedGeneration would take them for updated.
			line.UpdatedReplicas, line.UpdatedReadyReplicas, line.UpdatedAvailableReplicas = 0, 0, 0
		}
		if row := a.Rows[part.Cluster]; row != nil && placement.Blocked(row) {
			line.Reason = row.Status.Reason
		}
		if a.Applied[part.Cluster] && partitionDiffers(part) {
			line.Reason = reasonPartition
			*problems = append(*problems, placement.Problem{
				Subset: part.Subset, Cluster: part.Cluster, Reason: reasonPartition, Message: fmt.Sprintf(
					"the partition in the cluster is %d instead of %d: check there what changes the slice",
					part.counts.Partition, part.grant.Partition),
			})
		}
		if reported.Nonsense {
			line.Reason = fleetv1alpha1.ReasonImplausibleCounts
			*problems = append(*problems, placement.Problem{
				Subset: part.Subset, Cluster: part.Cluster, Reason: fleetv1alpha1.ReasonImplausibleCounts,
				Message: fmt.Sprintf("the cluster reports implausible numbers, which were clamped (replicas: %d)", part.grant.Replicas),
			})
		}
		if line.Reason == "" && (part.state == allot.Awaited || part.reason == placement.ReasonTainted) {
			line.Reason = part.reason
		}
		if line.Stale && line.Reason == "" {
			line.Reason = placement.ReasonUnreachable
		}
		out = append(out, line)
	}
	return out, running
}

// subsetAt is a subset in a cluster.
type subsetAt struct{ subset, cluster string }

// observedBefore returns the generations that clusters have applied, according to the previous status.
func observedBefore(ud *appsv1beta1.UnitedDeployment) map[subsetAt]int64 {
	out := make(map[subsetAt]int64, len(ud.Status.SubsetStatuses))
	for _, line := range ud.Status.SubsetStatuses {
		out[subsetAt{line.Name, line.Cluster}] = line.ObservedGeneration
	}
	return out
}

// partitionDiffers reports whether a cluster reports a different partition than it was granted. It ignores leftovers: a Deployment that is
// scaled to 0 can't keep pods at the old revision.
func partitionDiffers(p part) bool {
	reported := p.counts.Desired == p.grant.Replicas
	return reported && !p.leftover && p.counts.Partition != p.grant.Partition
}

// sumSubsets adds up the subsets. Pods in a cluster that doesn't answer count as existing and updated, which is most likely, but not as
// ready or available, which is unknown.
func sumSubsets(s *appsv1beta1.UnitedDeploymentStatus, subsets []appsv1beta1.SubsetStatus) {
	s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = 0, 0, 0, 0, 0
	for _, line := range subsets {
		s.UpdatedReplicas += line.UpdatedReplicas
		if line.Stale {
			continue
		}
		s.ReadyReplicas += line.ReadyReplicas
		s.AvailableReplicas += line.AvailableReplicas
		s.UpdatedReadyReplicas += line.UpdatedReadyReplicas
		s.UpdatedAvailableReplicas += line.UpdatedAvailableReplicas
	}
}

// rankOf ranks the lines of a status. The lowest ranks are kept if there are too many lines.
func rankOf(line appsv1beta1.SubsetStatus) int {
	switch {
	case line.Reason != "" || line.Stale:
		return 0
	case line.AvailableReplicas < line.Replicas:
		return 1
	default:
		return 2
	}
}

// setRevisions sets the names of the revisions. While a revision can't be written, the previous one is still named.
func setRevisions(p planned, a placement.Summary, s *appsv1beta1.UnitedDeploymentStatus) {
	if p.revision.Revision != nil && !a.Withheld {
		s.UpdatedRevision = p.revision.Revision.Name
	}
	if s.UpdatedRevision != "" && s.StaleClusters == 0 && len(p.parts) > 0 && s.UpdatedReadyReplicas >= s.Replicas && allApplied(a.Applied) {
		s.CurrentRevision = s.UpdatedRevision
	}
}

// allApplied reports whether every cluster has applied the current plan, so that counts refer to the current template.
func allApplied(applied map[string]bool) bool {
	for _, ok := range applied {
		if !ok {
			return false
		}
	}
	return true
}

// setConditions sets the conditions.
func setConditions(p planned, a placement.Summary, problems []placement.Problem, s *appsv1beta1.UnitedDeploymentStatus, now time.Time) {
	set := func(t appsv1beta1.UnitedDeploymentConditionType, ok bool, reason, message string) {
		value := corev1.ConditionFalse
		if ok {
			value = corev1.ConditionTrue
		}
		s.Conditions = united.SetCondition(s.Conditions, appsv1beta1.UnitedDeploymentCondition{
			Type: t, Status: value, Reason: reason, Message: message,
		}, now)
	}
	switch {
	case a.Err != nil:
		set(appsv1beta1.SubsetFailure, true, "Error", a.Err.Error())
	case len(problems) > 0:
		set(appsv1beta1.SubsetFailure, true, problems[0].Reason, placement.Describe(problems))
	default:
		set(appsv1beta1.SubsetFailure, false, "NoFailure", "")
	}
	if p.runsHere {
		return
	}
	if p.Deleting != "" {
		set(appsv1beta1.SubsetProvisioned, false, reasonDeleting, "")
		set(appsv1beta1.UnitedDeploymentPlaced, false, reasonDeleting, p.Deleting+": "+a.Holders(problems))
		return
	}
	switch {
	case len(a.Lagging) > 0:
		set(appsv1beta1.SubsetProvisioned, false, "Waiting", placement.Lagging(len(a.Lagging)))
	case a.Err != nil:
		set(appsv1beta1.SubsetProvisioned, false, "Waiting", a.Err.Error())
	case len(problems) > 0:
		set(appsv1beta1.SubsetProvisioned, false, "Waiting", placement.Describe(problems))
	default:
		set(appsv1beta1.SubsetProvisioned, true, "AllClusters", "")
	}
	updated := s.UpdatedReplicas >= expectedUpdated(p) && s.UpdatedRevision != "" && len(a.Lagging) == 0
	set(appsv1beta1.SubsetUpdated, updated, reasonIf(updated, "AllSubsets", "Updating"),
		messageIf(!updated, fmt.Sprintf("%d of %d replicas are at the new revision", s.UpdatedReplicas, expectedUpdated(p))))
	s.Conditions = united.SetCondition(s.Conditions, united.Updated(s), now)
	switch {
	case p.allocation.Why != "":
		set(appsv1beta1.UnitedDeploymentPlaced, false, "BoundsUnsatisfiable", p.allocation.Why)
	case len(p.moves) > 0:
		set(appsv1beta1.UnitedDeploymentPlaced, false, "Moving", placement.Shorten(p.moves))
	default:
		placed := slices.ContainsFunc(p.parts, func(part part) bool { return !part.leftover })
		set(appsv1beta1.UnitedDeploymentPlaced, placed, reasonIf(placed, "AllPlaced", reasonNoCluster),
			messageIf(!placed, "no subset has a cluster to run in"))
	}
}

// expectedUpdated returns how many pods should be at the new revision.
func expectedUpdated(p planned) int32 {
	var n int32
	for _, part := range p.parts {
		switch {
		case p.rollout == nil:
			n += part.grant.Replicas - part.grant.Partition
		case !part.leftover:
			n += part.grant.Replicas
		}
	}
	if p.rollout != nil {
		n -= count(p.rollout.partition)
	}
	return max(n, 0)
}

func reasonIf(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

func messageIf(ok bool, message string) string {
	if ok {
		return message
	}
	return ""
}
