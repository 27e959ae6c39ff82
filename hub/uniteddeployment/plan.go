package uniteddeployment

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// withdrawal is a row that is to go. One that is going keeps its policy.
type withdrawal struct {
	row    *fleetv1alpha1.MemberWork
	policy fleetv1alpha1.LeavePolicy
}

// plan is the next step of one UnitedDeployment.
type plan struct {
	// idle says that the object is not the hub's business: nothing is done and no status is written.
	idle bool
	// hold and release say whether the finalizer is to be set or taken off.
	hold, release bool
	// apart says that a member stack in this cluster runs the object, so that the numbers in its status are not the hub's.
	apart bool
	// leaving says, where the object is being deleted, what becomes of what it runs; else it is empty.
	leaving string
	// parts are all subsets in all clusters, with the grants that the rows are to carry.
	parts []part
	// wants are the rows to write, by cluster.
	wants []row.Want
	// withdrawals are the rows to delete.
	withdrawals []withdrawal
	// allocation is where the replicas belong.
	allocation allot.Allocation
	// moves says, one sentence each, what moves and what a move waits for.
	moves []string
	// problems is what is not as asked for.
	problems []problem
}

// decide plans the next step.
func decide(o *observed) plan {
	switch {
	case !o.ud.DeletionTimestamp.IsZero():
		return leave(o)
	case !united.Federated(o.ud):
		return unfederated(o)
	case !held(o.ud) && len(o.rows) == 0 && slices.ContainsFunc(o.ud.Status.SubsetStatuses, local):
		return apart()
	}
	p := plan{hold: !held(o.ud)}
	p.parts, p.problems = place(o)
	number(o, p.parts)
	p.allocation = allocate(o.ud, p.parts)
	targets := targetsOf(p.parts, p.allocation)
	partitions := partitionsOf(o.ud, p.parts, targets)
	steps := allot.Transfer(limitsOf(o.ud, barred(p.allocation, p.parts)), holdings(p.parts, targets))
	for i, s := range steps {
		p.parts[i].grant = fleetv1alpha1.SubsetGrant{
			Name: p.parts[i].name, Replicas: int32(s.Replicas), Partition: int32(min(partitions[i], s.Replicas)), //nolint:gosec // bounded by spec.replicas
			Lower: int32(s.Lower), Upper: int32(s.Upper), //nolint:gosec // likewise
			FirstOrdinal: p.parts[i].grant.FirstOrdinal,
		}
		if s.Why != "" {
			p.moves = append(p.moves, s.Why)
		}
	}
	p.write(o)
	return p
}

// leave withdraws the rows of an object that is being deleted. Where its namespace goes too, somebody deleted the
// namespace and not the object: what runs in the members stays.
func leave(o *observed) plan {
	policy := fleetv1alpha1.LeaveDelete
	p := plan{release: held(o.ud) && len(o.rows) == 0, parts: rest(o), leaving: "the object is being deleted"}
	if o.namespaceLeaves {
		policy = fleetv1alpha1.LeaveOrphan
		p.leaving = "the namespace is being deleted, and what runs in the members is kept"
	}
	for _, cluster := range slices.Sorted(maps.Keys(o.rows)) {
		p.withdrawals = append(p.withdrawals, withdrawal{o.rows[cluster], policy})
		if reason, why := o.silent(cluster); reason != "" {
			p.problems = append(p.problems, problem{cluster: cluster, reason: reason, message: why})
		}
	}
	return p
}

// unfederated is an object without clusters: the hub cluster's own member stack runs it, where there is one. One that
// had clusters before keeps its rows until the user says which clusters they belong to, because taking the names off
// all subsets is more likely a slip than a wish to delete everything. The member stack here takes an object without our
// finalizer only.
func unfederated(o *observed) plan {
	if o.localMember && len(o.rows) == 0 {
		return plan{idle: !held(o.ud), release: held(o.ud)}
	}
	message := "no subset names a cluster, and this cluster runs no member stack: give each subset cluster or clusterSelector"
	if len(o.rows) > 0 {
		message = fmt.Sprintf("no subset names a cluster any more, but %d clusters still run this object: name them again, or delete the object", len(o.rows))
	}
	return plan{parts: rest(o), problems: []problem{{reason: reasonNoCluster, message: message}}}
}

// local tells whether a subset's status is a member stack's: the hub's names a cluster.
func local(s appsv1beta1.SubsetStatus) bool { return s.Cluster == "" }

// apart is an object that a member stack in this cluster has reported on: it runs here. In clusters it would run twice,
// and what runs here would be nobody's.
func apart() plan {
	return plan{apart: true, problems: []problem{{
		reason: reasonRunsHere,
		message: "this cluster runs the object itself, so it is not placed in clusters too: take the clusters off its subsets again, " +
			"or delete it and apply it anew",
	}}}
}

// allocate says where the replicas belong. Leftovers get nothing and don't take part.
func allocate(ud *appsv1beta1.UnitedDeployment, parts []part) allot.Allocation {
	subsets := make([]allot.Subset, 0, len(ud.Spec.Topology.Subsets))
	for _, s := range ud.Spec.Topology.Subsets {
		subset := allot.Subset{Name: s.Name, Replicas: s.Replicas, Min: s.MinReplicas, Max: s.MaxReplicas}
		for _, p := range parts {
			if p.Subset == s.Name && !p.leftover {
				subset.Members = append(subset.Members, allot.Member{
					Cluster: p.Cluster, Current: int(p.grant.Replicas), Cap: p.limit, State: p.state,
				})
			}
		}
		subsets = append(subsets, subset)
	}
	return allot.Allocate(replicas(ud), subsets)
}

// replicas is the wanted total; unset counts as the default.
func replicas(ud *appsv1beta1.UnitedDeployment) int {
	if ud.Spec.Replicas == nil {
		return 1
	}
	return int(*ud.Spec.Replicas)
}

// targetsOf is the target of each part.
func targetsOf(parts []part, a allot.Allocation) []int {
	byKey := make(map[allot.Key]int, len(a.Targets))
	for _, t := range a.Targets {
		byKey[t.Key] = t.Replicas
	}
	targets := make([]int, len(parts))
	for i, p := range parts {
		if !p.leftover {
			targets[i] = byKey[p.Key]
		}
	}
	return targets
}

// partitionsOf divides the partitions of subsets over their clusters, in proportion to the targets, so that a cluster
// that is being filled has its share from the start.
func partitionsOf(ud *appsv1beta1.UnitedDeployment, parts []part, targets []int) []int {
	asked := map[string]int{}
	if m := ud.Spec.UpdateStrategy.ManualUpdate; m != nil {
		for name, n := range m.Partitions {
			asked[name] = int(n)
		}
	}
	list := make([]allot.Target, len(parts))
	for i, p := range parts {
		if !p.leftover {
			list[i] = allot.Target{Key: p.Key, Replicas: targets[i]}
		}
	}
	kept := allot.Partitions(asked, list)
	for i, p := range parts {
		if p.leftover {
			kept[i] = int(p.grant.Replicas) // what is emptied is not updated on its way out
		}
	}
	return kept
}

// holdings is what Transfer starts from.
func holdings(parts []part, targets []int) []allot.Holding {
	out := make([]allot.Holding, len(parts))
	for i, p := range parts {
		available, _ := allot.Clamp(int(p.counts.Available))
		out[i] = allot.Holding{
			Key:    p.Key,
			Target: targets[i],
			Grant: allot.Grant{
				Replicas: int(p.grant.Replicas), Upper: int(p.grant.Upper), Lower: int(p.grant.Lower),
			},
			Acked:     p.acked,
			Available: available,
			Dark:      p.state == allot.Frozen,
		}
	}
	return out
}

// barred is how many replicas maximums keep out on purpose. What leftovers run is not among them: that the object does
// not ask for their cluster any more says where they should be, not that there should be fewer.
func barred(a allot.Allocation, parts []part) int {
	n := a.Barred
	for _, p := range parts {
		if p.leftover {
			n -= int(p.grant.Replicas)
		}
	}
	return max(n, 0)
}

// limitsOf resolves placement.reallocation. What can't be resolved was refused by admission and counts as the default.
func limitsOf(ud *appsv1beta1.UnitedDeployment, barred int) allot.Limits {
	total := replicas(ud)
	l := allot.Limits{Desired: total, Barred: barred, MaxSurge: allot.DefaultSurge(total)}
	if p := ud.Spec.Topology.Placement; p != nil && p.Reallocation != nil {
		if n, ok := resolve(p.Reallocation.MaxSurge, total, true); ok {
			l.MaxSurge = n
		}
		if n, ok := resolve(p.Reallocation.MaxUnavailable, total, false); ok {
			l.MaxUnavailable = n
		}
	}
	if l.MaxSurge == 0 && l.MaxUnavailable == 0 {
		l.MaxSurge = 1 // both can come to 0 by rounding, and then nothing could ever move
	}
	return l
}

func resolve(v *intstr.IntOrString, total int, up bool) (int, bool) {
	if v == nil {
		return 0, false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, up)
	return n, err == nil && n >= 0
}

// write turns the parts into rows: one for each cluster that holds or shall hold replicas of a subset.
func (p *plan) write(o *observed) {
	common, err := manifest(o.ud)
	if err != nil {
		p.problems = append(p.problems, problem{reason: fleetv1alpha1.ReasonInvalid, message: err.Error()})
		return
	}
	byCluster := map[string][]part{}
	for _, part := range p.parts {
		byCluster[part.Cluster] = append(byCluster[part.Cluster], part)
	}
	for _, cluster := range slices.Sorted(maps.Keys(o.rows)) {
		if live := o.rows[cluster]; !live.DeletionTimestamp.IsZero() {
			p.withdrawals = append(p.withdrawals, withdrawal{live, live.Spec.DeletionPolicy})
			delete(byCluster, cluster) // it must be gone before there can be another
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(byCluster)) {
		live, mc := o.rows[cluster], o.clusters[cluster]
		if mc == nil || !mc.DeletionTimestamp.IsZero() || !mc.Spec.Accepted {
			continue
		}
		parts, emptied := keep(byCluster[cluster])
		switch {
		case len(parts) == 0 && live != nil && emptied:
			p.withdrawals = append(p.withdrawals, withdrawal{live, fleetv1alpha1.LeaveDelete})
		case len(parts) == 0 || (live == nil && !worthARow(mc, parts)):
			continue
		default:
			p.want(o, mc, common, parts)
		}
	}
}

// worthARow tells whether a cluster without a row gets one: not before its namespace is there, and not for replicas that
// it can't be given yet.
func worthARow(mc *fleetv1alpha1.MemberCluster, parts []part) bool {
	return mc.Status.Hub != nil && slices.ContainsFunc(parts, func(p part) bool {
		return p.state == allot.Ready || p.grant.Replicas > 0
	})
}

// keep drops parts that are not wanted and run nothing. emptied says that nothing of the object is left in the cluster.
func keep(parts []part) (kept []part, emptied bool) {
	emptied = true
	for _, p := range parts {
		done := p.leftover && p.acked && p.grant.Replicas == 0 && p.counts.Replicas == 0 && p.state != allot.Frozen
		if !done {
			kept, emptied = append(kept, p), false
		}
	}
	return kept, emptied
}

func (p *plan) want(o *observed, mc *fleetv1alpha1.MemberCluster, common []byte, parts []part) {
	raw, err := patch(parts)
	if err != nil {
		p.problems = append(p.problems, problem{cluster: mc.Name, reason: fleetv1alpha1.ReasonInvalid, message: err.Error()})
		return
	}
	want := row.Want{
		Cluster: mc.Name,
		Source: fleetv1alpha1.WorkSource{
			APIVersion: appsv1beta1.GroupVersion.String(), Kind: sourceKind,
			Namespace: o.ud.Namespace, Name: o.ud.Name, UID: string(o.ud.UID),
		},
		Manifest: common,
		Patch:    raw,
	}
	if mc.Status.Hub != nil {
		want.Grant.Epoch = mc.Status.Hub.Epoch
	}
	for _, part := range parts {
		want.Grant.Replicas += part.grant.Replicas
		want.Grant.Subsets = append(want.Grant.Subsets, part.grant)
	}
	p.wants = append(p.wants, want)
}
