package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/rollout"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// explain prints the progress once, and then the sum behind the budget. A rollout that has failed has a sum too.
func (f *statusFlags) explain(ctx context.Context, c client.WithWatch, set workload, out io.Writer, t progressPrinter) error {
	if set.GetKind() != "UnitedDeployment" {
		return fmt.Errorf("--why shows the budget of a rollout over clusters, which only UnitedDeployments on a hub have: omit --why for %s", set.id())
	}
	ud, err := decode(ctx, set, appsv1alpha1.UnitedDeploymentToHub)
	if err != nil {
		return err
	}
	if kind := ud.Spec.UpdateStrategy.Type; kind != appsv1beta1.WavesUpdateStrategyType {
		return fmt.Errorf("--why shows the budget of a rollout with updateStrategy.type Waves, and %s has %s: omit --why", set.id(),
			cmp.Or(kind, appsv1beta1.ManualUpdateStrategyType))
	}
	failed := f.follow(ctx, c, set, t)
	rows, err := rowsOf(ctx, c, set)
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, newSum(ud, rows).print(out))
}

// rowsOf returns what the hub asks of members for an object, sorted by cluster.
func rowsOf(ctx context.Context, c client.Reader, set workload) ([]fleetv1alpha1.MemberWork, error) {
	all := &fleetv1alpha1.MemberWorkList{}
	err := c.List(ctx, all, client.MatchingLabels{keys.FleetSourceUID: string(set.GetUID())})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("--why reads what the hub asks of each cluster for %s: you need the right to list memberworks.fleet.kruise.io in all "+
			"namespaces, given by a ClusterRoleBinding: %w", set.id(), err)
	case err != nil:
		return nil, explain(fmt.Errorf("list the rows of %s: %w", set.id(), err))
	}
	slices.SortFunc(all.Items, func(a, b fleetv1alpha1.MemberWork) int { return strings.Compare(a.Namespace, b.Namespace) })
	return all.Items, nil
}

// sum is how the budget of a rollout is used up.
type sum struct {
	lines []share
	// budget is what the hub has written, or nil if it has written nothing yet.
	budget *pods.RolloutBudget
}

// share is the part of one subset in one cluster. cluster is "" for pods that no cluster was granted.
type share struct {
	cluster, subset string
	// Numbers of pods. spent is how many are unavailable, and bound how many may be.
	granted, available, updated, spent, bound int
	// revision is new, old or unknown. most is the granted maxUnavailable. acked is true or false. upper are the bounds that count until the row
	// is acknowledged.
	revision, most, acked, upper string
	why                          []string
}

func newSum(ud *appsv1beta1.UnitedDeployment, rows []fleetv1alpha1.MemberWork) sum {
	var out sum
	if s := ud.Status.Rollout; s != nil {
		out.budget = &s.Budget
	}
	stale, skip := map[string]bool{}, false
	for _, s := range ud.Status.SubsetStatuses {
		stale[s.Cluster] = stale[s.Cluster] || s.Stale
	}
	if plan := ud.Spec.UpdateStrategy.Rollout; plan != nil {
		skip = plan.StaleClusters == pods.StaleClustersSkip
	}
	missing := int(ptr.Deref(ud.Spec.Replicas, 1))
	if !slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1beta1.Subset) bool { return s.Replicas == nil && s.MaxReplicas == nil }) {
		missing -= int(ud.Status.UnallocatedReplicas) // Pods that maximums exclude are not missing.
	}
	for i := range rows {
		row := &rows[i]
		for _, g := range row.Spec.Grant.Subsets {
			missing -= int(g.Replicas)
			out.lines = append(out.lines, shareOf(partOf(ud, row, g, stale), row, int(g.Lower), skip))
		}
	}
	if missing > 0 {
		out.lines = append(out.lines, share{
			spent: missing, bound: missing, why: []string{"not granted to any cluster"},
		})
	}
	return out
}

// partOf returns what the hub's plan sees of a row.
func partOf(ud *appsv1beta1.UnitedDeployment, row *fleetv1alpha1.MemberWork, g fleetv1alpha1.SubsetGrant, stale map[string]bool) rollout.Part {
	cluster := cmp.Or(row.Labels[keys.FleetCluster], strings.TrimPrefix(row.Namespace, fleetv1alpha1.Namespace("")))
	counts := fleetv1alpha1.SubsetCounts{}
	if i := slices.IndexFunc(row.Status.Subsets, func(c fleetv1alpha1.SubsetCounts) bool { return c.Name == g.Name }); i >= 0 {
		counts = row.Status.Subsets[i]
	}
	clamp := func(n int32) int {
		out, _ := allot.Clamp(int(n))
		return out
	}
	p := rollout.Part{
		Key: allot.Key{Subset: g.Name, Cluster: cluster}, Replicas: int(g.Replicas), Sent: int(g.Replicas), Upper: int(g.Upper),
		Grant: rollout.Grant{
			Partition: int(g.Partition), Bounded: row.Spec.Grant.Revision != "",
			UnavailableUpper: int(g.UnavailableUpper), UpdatedUpper: int(g.UpdatedUpper),
		},
		Current: revision.Same(row.Spec.Grant.Revision, ud.Status.UpdatedRevision), Acked: row.Status.ObservedGeneration == row.Generation,
		Dark: stale[cluster], Whole: ud.Spec.Template.DeploymentTemplate != nil,
		Pods: clamp(counts.Replicas), Available: clamp(counts.Available), Updated: clamp(counts.Updated), UpdatedAvailable: clamp(counts.UpdatedAvailable),
	}
	if g.MaxUnavailable != nil {
		p.Grant.MaxUnavailable = new(int(*g.MaxUnavailable))
	}
	return p
}

// shareOf returns how much of the budget a part uses up. lower is the smallest number of pods that may be running.
func shareOf(p rollout.Part, row *fleetv1alpha1.MemberWork, lower int, skipStale bool) share {
	out := share{cluster: p.Cluster, subset: p.Subset, granted: p.Replicas, available: p.Available, revision: "old", acked: strconv.FormatBool(p.Acked)}
	if p.Acked { // The bounds no longer count.
		p.Upper = p.Replicas
	} else {
		p.Available = min(p.Available, lower)
	}
	// The hub's own plan says it. With a pause, it grants nothing more.
	now := rollout.Next(rollout.Limits{Paused: true, SkipStale: skipStale}, []rollout.Part{p})
	out.spent, out.bound = now.Spent, now.Bound
	if p.Grant.MaxUnavailable != nil {
		out.most = strconv.Itoa(*p.Grant.MaxUnavailable)
	}
	switch {
	case p.Current:
		out.revision = "new"
		if p.Acked || revision.Same(row.Status.Revision, row.Spec.Grant.Revision) { // Otherwise the report may be about another revision.
			out.updated = p.Updated
		}
	case row.Spec.Grant.Revision == "":
		out.revision = "unknown"
	}
	switch {
	case p.Dark && skipStale:
		out.why = append(out.why, "doesn't answer: only what it may still update counts")
	case p.Dark:
		out.why = append(out.why, "doesn't answer: all of its pods count")
	}
	if phase := row.Status.Phase; phase == fleetv1alpha1.WorkBlocked || phase == fleetv1alpha1.WorkDegraded {
		out.why = append(out.why, string(phase)+"/"+row.Status.Reason)
	}
	if !p.Acked {
		out.upper = fmt.Sprintf("%d pods, %d unavailable, %d updated", p.Upper, p.Grant.UnavailableUpper, p.Grant.UpdatedUpper)
		out.why = append(out.why, "may still act on an earlier grant")
	}
	if !row.DeletionTimestamp.IsZero() {
		out.why = append(out.why, "the row is being withdrawn")
	}
	return out
}

// print prints a table, and how its sums compare with what the hub has written.
func (s sum) print(out io.Writer) error {
	// Flush writes, and returns the errors.
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tSUBSET\tREVISION\tGRANTED\tAVAILABLE\tUPDATED\tMAXUNAVAILABLE\tACKNOWLEDGED\tUPPER BOUNDS\tSPENT\tBOUND\tWHY")
	var total share
	for _, l := range s.lines {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%s\n", cmp.Or(l.cluster, "-"), cmp.Or(l.subset, "-"), cmp.Or(l.revision, "-"),
			l.granted, l.available, l.updated, cmp.Or(l.most, "-"), cmp.Or(l.acked, "-"), cmp.Or(l.upper, "-"), l.spent, l.bound,
			cmp.Or(strings.Join(l.why, "; "), "-"))
		total.granted += l.granted
		total.available += l.available
		total.updated += l.updated
		total.spent += l.spent
		total.bound += l.bound
	}
	_, _ = fmt.Fprintf(table, "total\t\t\t%d\t%d\t%d\t\t\t\t%d\t%d\n", total.granted, total.available, total.updated, total.spent, total.bound)
	if err := table.Flush(); err != nil {
		return err
	}
	return printAll(out, s.compare(total))
}

// compare says how the sums compare with what the hub has written.
func (s sum) compare(total share) []string {
	if s.budget == nil {
		return []string{"The status has no budget: the hub has not planned a rollout yet."}
	}
	out := []string{fmt.Sprintf("The status has spent %d, bound %d, and max %d.", s.budget.Spent, s.budget.Bound, s.budget.Max)}
	if total.spent != int(s.budget.Spent) || total.bound != int(s.budget.Bound) {
		out = append(out, "The sums differ from the status: a row is newer than the status or older than the hub's plan. Look again; if that lasts, see whether "+
			"the hub's manager runs.")
	}
	return out
}
