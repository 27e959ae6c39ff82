package uniteddeployment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// rowLimit is how many subset statuses an object lists, so that it stays under 64 KiB with thousands of clusters.
const rowLimit = 200

// plausible is how many pods more than granted a member may report before its numbers count as nonsense: twice what it
// was granted, and a hundred, which covers surges, terminating pods and former grants.
func plausible(granted int32) int32 { return 2*granted + 100 }

// status is what the object shall say of itself, and the events that go with it.
func status(o *observed, p plan, done result, now time.Time) (appsv1beta1.UnitedDeploymentStatus, []event.Event) {
	s := *o.ud.Status.DeepCopy()
	if p.apart {
		conditions(p, done, p.problems, 0, &s, now)
		return s, eventsFor(o.ud.Status, s)
	}
	s.SubsetStatuses = nil
	s.LabelSelector = metav1.FormatLabelSelector(o.ud.Spec.Selector)
	s.UnallocatedReplicas = int32(p.allocation.Unallocated) //nolint:gosec // at most spec.replicas
	stale, applied, lagging := staleClusters(o, p), applied(p, done), 0
	s.StaleClusters = int32(len(stale)) //nolint:gosec // a count of clusters
	problems := slices.Concat(p.problems, done.problems)

	for cluster, ok := range applied {
		if !ok && !stale[cluster] {
			lagging++
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(done.rows)) {
		if row := done.rows[cluster]; blocked(row) {
			problems = append(problems, problem{cluster: cluster, reason: row.Status.Reason, message: row.Status.Message})
		}
	}
	subsets, running := subsetStatuses(o, p, done, stale, applied, &problems)
	sum(&s, subsets)
	s.Replicas = running
	s.SubsetStatuses = worst(subsets)
	if p.leaving == "" {
		revisions(p, done, stale, applied, &s)
	}
	// Where nothing is wanted of any cluster, the conditions are the answer, unless it waits for one that is silent.
	if lagging == 0 && done.err == nil && (len(p.wants) > 0 || len(stale) == 0) {
		s.ObservedGeneration = o.ud.Generation
	}
	conditions(p, done, problems, lagging, &s, now)
	return s, eventsFor(o.ud.Status, s)
}

// applied are the clusters that hold a row or shall have one: true for those whose row is as the plan wants it and
// acknowledged. A row that was emptied and is to go has nothing more to apply; one that may not be written has not this
// generation.
func applied(p plan, done result) map[string]bool {
	out := make(map[string]bool, len(done.rows))
	for cluster := range done.rows {
		out[cluster] = false
	}
	for _, w := range p.withdrawals {
		out[w.row.Labels[keys.FleetCluster]] = p.leaving == "" && acked(w.row)
	}
	for _, want := range p.wants {
		row := done.rows[want.Cluster]
		out[want.Cluster] = row != nil && acked(row) && !done.missed[want.Cluster]
	}
	return out
}

// staleClusters are the clusters whose numbers are old because nobody answers there, also of rows that are going.
func staleClusters(o *observed, p plan) map[string]bool {
	stale := map[string]bool{}
	for cluster := range o.rows {
		if reason, _ := o.silent(cluster); reason != "" {
			stale[cluster] = true
		}
	}
	for _, part := range p.parts {
		if part.state == allot.Frozen {
			stale[part.Cluster] = true
		}
	}
	return stale
}

// reasonDeleting is the reason of the conditions of an object that is being deleted.
const reasonDeleting = "Deleting"

func blocked(row *fleetv1alpha1.MemberWork) bool {
	return row.Status.Phase == fleetv1alpha1.WorkBlocked || row.Status.Phase == fleetv1alpha1.WorkDegraded
}

// subsetStatuses are the parts as status lines, and how many pods run in all of them. What a member reports is not
// trusted: numbers that can't be are cut to what can, and become a problem of that cluster.
func subsetStatuses(
	o *observed, p plan, done result, stale, applied map[string]bool, problems *[]problem,
) ([]appsv1beta1.SubsetStatus, int32) {
	out := make([]appsv1beta1.SubsetStatus, 0, len(p.parts))
	var running int32
	for _, part := range p.parts {
		if part.leftover && part.grant.Replicas == 0 && part.counts.Replicas == 0 {
			continue
		}
		most := plausible(max(part.grant.Replicas, part.grant.Upper))
		nonsense := false
		cut := func(n int32) int32 {
			nonsense = nonsense || n < 0 || n > most
			return max(min(n, most), 0)
		}
		line := appsv1beta1.SubsetStatus{
			Name: part.name, Cluster: part.Cluster, Stale: stale[part.Cluster],
			Replicas:             part.grant.Replicas,
			ReadyReplicas:        cut(part.counts.Ready),
			AvailableReplicas:    cut(part.counts.Available),
			UpdatedReplicas:      cut(part.counts.Updated),
			UpdatedReadyReplicas: cut(part.counts.UpdatedReady),
			Partition:            part.grant.Partition,
		}
		running += cut(part.counts.Replicas)
		if applied[part.Cluster] {
			line.ObservedGeneration = o.ud.Generation
		}
		if row := done.rows[part.Cluster]; row != nil && blocked(row) {
			line.Reason = row.Status.Reason
		}
		if applied[part.Cluster] && keepsOthers(part) {
			line.Reason = reasonPartition
			*problems = append(*problems, problem{
				part.Subset, part.Cluster, reasonPartition, fmt.Sprintf(
					"the cluster keeps %d pods at the old revision instead of %d: look there who changes the slice",
					part.counts.Partition, part.grant.Partition),
			})
		}
		if nonsense {
			line.Reason = fleetv1alpha1.ReasonNonsense
			*problems = append(*problems, problem{
				part.Subset, part.Cluster, fleetv1alpha1.ReasonNonsense,
				fmt.Sprintf("the cluster reports numbers that can't be of %d replicas: they were cut", part.grant.Replicas),
			})
		}
		if line.Stale && line.Reason == "" {
			line.Reason = reasonUnreachable
		}
		out = append(out, line)
	}
	return out, running
}

// keepsOthers tells whether a cluster reports another partition than it was granted. Of a subset that is emptied it says
// nothing: a Deployment can't keep pods at the old revision on its way out.
func keepsOthers(p part) bool {
	reported := p.counts.Desired == p.grant.Replicas
	return reported && !p.leftover && p.counts.Partition != p.grant.Partition
}

// sum adds up the subsets. Pods of a cluster that does not answer are counted as being there (also as updated), because
// they most likely are, but not as ready or available, because nobody knows.
func sum(s *appsv1beta1.UnitedDeploymentStatus, subsets []appsv1beta1.SubsetStatus) {
	s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas = 0, 0, 0, 0
	for _, line := range subsets {
		s.UpdatedReplicas += line.UpdatedReplicas
		if line.Stale {
			continue
		}
		s.ReadyReplicas += line.ReadyReplicas
		s.AvailableReplicas += line.AvailableReplicas
		s.UpdatedReadyReplicas += line.UpdatedReadyReplicas
	}
}

// worst keeps the lines that need attention where there are more than rowLimit, in the order they had.
func worst(subsets []appsv1beta1.SubsetStatus) []appsv1beta1.SubsetStatus {
	if len(subsets) <= rowLimit {
		return subsets
	}
	order := make([]int, len(subsets))
	for i := range order {
		order[i] = i
	}
	bad := func(i int) int {
		line := subsets[i]
		switch {
		case line.Reason != "" || line.Stale:
			return 0
		case line.AvailableReplicas < line.Replicas:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(bad(a), bad(b)) })
	order = order[:rowLimit]
	slices.Sort(order)
	out := make([]appsv1beta1.SubsetStatus, 0, rowLimit)
	for _, i := range order {
		out = append(out, subsets[i])
	}
	return out
}

// revisions takes the revision's name from the members: the template is the same bytes everywhere, so its hash is too.
func revisions(p plan, done result, stale, applied map[string]bool, s *appsv1beta1.UnitedDeploymentStatus) {
	for _, cluster := range slices.Sorted(maps.Keys(done.rows)) {
		row := done.rows[cluster]
		if !stale[cluster] && applied[cluster] && row.Status.Revision != "" {
			s.UpdatedRevision = row.Status.Revision
			break
		}
	}
	if s.UpdatedRevision != "" && s.StaleClusters == 0 && len(p.parts) > 0 && s.UpdatedReadyReplicas >= s.Replicas && allApplied(applied) {
		s.CurrentRevision = s.UpdatedRevision
	}
}

// allApplied tells whether every cluster has applied the present plan, so that the counts are of the present template.
func allApplied(applied map[string]bool) bool {
	for _, ok := range applied {
		if !ok {
			return false
		}
	}
	return true
}

// conditions writes the summary that people read first.
func conditions(p plan, done result, problems []problem, lagging int, s *appsv1beta1.UnitedDeploymentStatus, now time.Time) {
	set := func(t appsv1beta1.UnitedDeploymentConditionType, ok bool, reason, message string) {
		value := corev1.ConditionFalse
		if ok {
			value = corev1.ConditionTrue
		}
		s.Conditions = setCondition(s.Conditions, appsv1beta1.UnitedDeploymentCondition{
			Type: t, Status: value, Reason: reason, Message: message,
		}, now)
	}
	switch {
	case done.err != nil:
		set(appsv1beta1.SubsetFailure, true, "Error", done.err.Error())
	case len(problems) > 0:
		set(appsv1beta1.SubsetFailure, true, problems[0].reason, describe(problems))
	default:
		set(appsv1beta1.SubsetFailure, false, "NoFailure", "")
	}
	if p.apart {
		return
	}
	if p.leaving != "" {
		set(appsv1beta1.SubsetProvisioned, false, reasonDeleting, "")
		set(appsv1beta1.UnitedDeploymentPlaced, false, reasonDeleting, p.leaving+": "+holders(done, problems))
		return
	}
	provisioned := lagging == 0 && done.err == nil && len(problems) == 0
	set(appsv1beta1.SubsetProvisioned, provisioned, reasonIf(provisioned, "AllClusters", "Waiting"),
		messageIf(!provisioned, fmt.Sprintf("%d clusters have not applied their part yet", lagging)))
	updated := s.UpdatedReplicas >= expectedUpdated(p) && s.UpdatedRevision != "" && lagging == 0
	set(appsv1beta1.SubsetUpdated, updated, reasonIf(updated, "AllSubsets", "Updating"),
		messageIf(!updated, fmt.Sprintf("%d of %d replicas are at the new revision", s.UpdatedReplicas, expectedUpdated(p))))
	whole := s.UpdatedRevision != "" && s.CurrentRevision == s.UpdatedRevision
	set(appsv1beta1.UnitedDeploymentUpdated, whole, reasonIf(whole, "Updated", "Updating"), "")
	switch {
	case p.allocation.Why != "":
		set(appsv1beta1.UnitedDeploymentPlaced, false, "NumbersDontAddUp", p.allocation.Why)
	case len(p.moves) > 0:
		set(appsv1beta1.UnitedDeploymentPlaced, false, "Moving", short(p.moves))
	default:
		placed := slices.ContainsFunc(p.parts, func(part part) bool { return !part.leftover })
		set(appsv1beta1.UnitedDeploymentPlaced, placed, reasonIf(placed, "AllPlaced", reasonNoCluster),
			messageIf(!placed, "no subset has a cluster to run in"))
	}
}

// holders says which clusters hold an object that is being deleted, those with a problem first.
func holders(done result, problems []problem) string {
	troubled := map[string]string{}
	for _, p := range problems {
		if _, known := done.rows[p.cluster]; known && troubled[p.cluster] == "" {
			troubled[p.cluster] = fmt.Sprintf("%s (%s)", p.cluster, p.reason)
		}
	}
	var first, names []string
	for _, cluster := range slices.Sorted(maps.Keys(done.rows)) {
		if name := troubled[cluster]; name != "" {
			first = append(first, name)
		} else {
			names = append(names, cluster)
		}
	}
	names = append(first, names...)
	switch len(names) {
	case 0:
		return "no cluster holds it any more"
	case 1:
		return "1 cluster still holds it: " + names[0]
	default:
		return fmt.Sprintf("%d clusters still hold it: %s", len(names), event.Names(names))
	}
}

func expectedUpdated(p plan) int32 {
	var n int32
	for _, part := range p.parts {
		n += part.grant.Replicas - part.grant.Partition
	}
	return n
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

// describe folds problems into a sentence or two.
func describe(problems []problem) string {
	lines := make([]string, 0, len(problems))
	for _, p := range problems {
		where := ""
		switch {
		case p.subset != "" && p.cluster != "":
			where = fmt.Sprintf("subset %s in %s: ", p.subset, p.cluster)
		case p.subset != "":
			where = fmt.Sprintf("subset %s: ", p.subset)
		case p.cluster != "":
			where = p.cluster + ": "
		}
		lines = append(lines, where+p.message)
	}
	return short(lines)
}

// short joins the first three sentences and counts the rest.
func short(lines []string) string {
	const shown = 3
	if len(lines) > shown {
		return strings.Join(lines[:shown], "; ") + fmt.Sprintf("; and %d more", len(lines)-shown)
	}
	return strings.Join(lines, "; ")
}

// setCondition is report.SetCondition for this kind's own type of condition.
func setCondition(list []appsv1beta1.UnitedDeploymentCondition, c appsv1beta1.UnitedDeploymentCondition, now time.Time) []appsv1beta1.UnitedDeploymentCondition {
	c.Message = report.Truncate(c.Message)
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	for i := range list {
		if list[i].Type == c.Type {
			if list[i].Status == c.Status {
				c.LastTransitionTime = list[i].LastTransitionTime
			}
			list[i] = c
			return list
		}
	}
	return append(list, c)
}
