package propagation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

const (
	// grantName is the name of the only grant in the row of an object whose replicas are divided.
	grantName = "replicas"
	// reasonDividing means that replicas are moving or waiting to move. reasonUnallocated means that some replicas fit in no cluster.
	// reasonNotDivided means that the object can't be placed while replicas are divided.
	reasonDividing    = "Dividing"
	reasonUnallocated = "Unallocated"
	reasonNotDivided  = "NotDivided"
)

// dividedKinds are the kinds whose replicas are divided. All of them have spec.replicas, which defaults to 1.
func dividedKinds() []schema.GroupKind {
	return []schema.GroupKind{
		{Group: "apps", Kind: "Deployment"},
		{Group: "apps", Kind: "StatefulSet"},
		{Group: "apps.kruise.io", Kind: "CloneSet"},
		{Group: "apps.kruise.io", Kind: "StatefulSet"},
	}
}

// divides reports whether a spec divides replicas.
func divides(spec *fleetv1alpha1.PropagationSpec) bool {
	return spec.Replicas != nil && spec.Replicas.Division != fleetv1alpha1.DivisionDuplicated
}

// divided reports whether the replicas of objects of a kind are divided.
func divided(spec *fleetv1alpha1.PropagationSpec, kind schema.GroupKind) bool {
	return divides(spec) && slices.Contains(dividedKinds(), kind)
}

// undividable returns why an object can't be placed while replicas are divided, or "". Such an object would run in full in each cluster.
func undividable(spec *fleetv1alpha1.PropagationSpec, live *unstructured.Unstructured) string {
	kind := live.GroupVersionKind().GroupKind()
	if !divides(spec) || divided(spec, kind) {
		return ""
	}
	if why := refusesDivision(kind); why != "" {
		return why
	}
	if _, has, _ := unstructured.NestedInt64(live.Object, "spec", "replicas"); has {
		return fmt.Sprintf("it has spec.replicas, but replicas of kind %s can't be divided: select it in a "+
			"Propagation without spec.replicas", kind)
	}
	return ""
}

// refusesDivision returns why objects of a kind can't be selected while replicas are divided, or "".
func refusesDivision(kind schema.GroupKind) string {
	if slices.Contains([]schema.GroupKind{
		{Group: "batch", Kind: "Job"}, {Group: "batch", Kind: "CronJob"}, {Group: "apps.kruise.io", Kind: "AdvancedCronJob"},
	}, kind) {
		return fmt.Sprintf("a %s has no replicas to divide, so each cluster would run all of it: select it in a "+
			"Propagation without spec.replicas", kind.Kind)
	}
	return ""
}

// partitionPath returns the path of the partition in objects of a divided kind, or nil if the kind has none.
func partitionPath(gvk schema.GroupVersionKind) []string {
	if gvk.GroupKind() == (schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}) && gvk.Version == "v1alpha1" {
		return []string{"spec", "updateStrategy", "partition"}
	}
	return []string{"spec", "updateStrategy", "rollingUpdate", "partition"}
}

// totals is what an object requests for all clusters together.
type totals struct {
	replicas int
	// partition is how many pods stay at the old revision. It is nil if there is no partition or it is a percentage, which applies in each
	// cluster.
	partition *int
}

// split separates a manifest into what all clusters share, and the numbers that are divided between them.
func (m content) split() (content, totals, error) {
	all := totals{replicas: 1}
	shared := content{object: m.object.DeepCopy(), rendered: map[variant]rendering{}}
	if n, has, _ := unstructured.NestedInt64(shared.object.Object, "spec", "replicas"); has {
		all.replicas = clamp(n)
	}
	unstructured.RemoveNestedField(shared.object.Object, "spec", "replicas")
	path := partitionPath(shared.object.GroupVersionKind())
	if n, has, _ := unstructured.NestedInt64(shared.object.Object, path...); has {
		all.partition = new(clamp(n))
		shared.partitioned = true
		unstructured.RemoveNestedField(shared.object.Object, path...)
	}
	var err error
	if shared.raw, err = json.Marshal(shared.object.Object); err != nil {
		return content{}, totals{}, fmt.Errorf("encode %s %s: %w", m.object.GetKind(), m.object.GetName(), err)
	}
	return shared, all, nil
}

// clamp limits a number of pods to the range of a grant.
func clamp(n int64) int { return int(max(min(n, 1<<31-1), 0)) }

// site is a cluster that has, or may get, replicas of an object.
type site struct {
	cluster string
	live    *fleetv1alpha1.MemberWork
	// unselected: the cluster is no longer selected. stays: it keeps the object; if not, it is emptied. writable: its row may be written.
	unselected, stays, writable bool
	// shareIndex is the index of the cluster's share in spec.replicas.shares, or their number if it is in none. weight and limit are its weight and
	// its maximum.
	shareIndex int
	weight     int
	limit      *int
	state      allot.State
	// before is the grant in the row, and grant is the next one. acked: the cluster has acknowledged its row.
	before, grant fleetv1alpha1.SubsetGrant
	acked         bool
	counts        fleetv1alpha1.WorkCounts
	target        int
}

// granted returns the grant of replicas in a row. Rows that were written before replicas were divided have none.
func granted(r *fleetv1alpha1.MemberWork) (fleetv1alpha1.SubsetGrant, bool) {
	for _, g := range r.Spec.Grant.Subsets {
		if g.Name == grantName {
			return g, true
		}
	}
	return fleetv1alpha1.SubsetGrant{Name: grantName}, false
}

// site returns a cluster with the grant in its row. Without a grant, the cluster runs what the manifest says, as far as it has applied that.
func (o *observed) site(one object, cluster string, live *fleetv1alpha1.MemberWork) *site {
	s := &site{cluster: cluster, live: live, acked: true, grant: fleetv1alpha1.SubsetGrant{Name: grantName}}
	s.shareIndex, s.weight, s.limit = o.shareOf(cluster)
	if live == nil {
		return s // Nothing was granted, so nothing can be running.
	}
	s.acked, s.counts = placement.Acknowledged(live), live.Status.Counts
	if g, has := granted(live); has {
		s.grant = g
	} else {
		n := o.ungranted[row.PlaceOf(cluster, one.row)]
		s.grant.Replicas, s.grant.Lower, s.grant.Upper = n, n, n
		if s.acked = s.acked && s.counts.Desired == n; !s.acked {
			reported := placement.PlausibleFor(n)
			s.grant.Lower = min(n, reported.Cut(s.counts.Desired))
			s.grant.Upper = max(n, reported.Cut(s.counts.Desired), reported.Cut(s.counts.Replicas))
		}
	}
	s.before = s.grant
	return s
}

// replicasIn returns how many replicas the manifest of a row without a grant requests. If the manifest is missing, or the row ignores replicas,
// it returns how many the member reports.
func replicasIn(raw []byte, r *fleetv1alpha1.MemberWork) (int32, error) {
	reported := max(r.Status.Counts.Desired, 0)
	if raw == nil || r.Spec.Apply != nil && slices.ContainsFunc(r.Spec.Apply.Ignore, ignoresReplicas) {
		return reported, nil
	}
	var manifest struct {
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
	}
	switch err := json.Unmarshal(raw, &manifest); {
	case err != nil:
		return 0, fmt.Errorf("read the replicas of row %s/%s: %w", r.Namespace, r.Name, err)
	case manifest.Spec.Replicas == nil:
		return 1, nil
	}
	return max(*manifest.Spec.Replicas, 0), nil
}

// ignoresReplicas reports whether an ignored path is the path of the replicas.
func ignoresReplicas(path string) bool {
	return slices.Contains([]string{"spec.replicas", "spec[replicas]"}, path)
}

// shareOf returns the index of a cluster's share, with its weight and maximum. A cluster that is in no share gets nothing; without shares, all
// clusters have weight 1.
func (o *observed) shareOf(cluster string) (share, weight int, most *int) {
	shares := o.spec.Replicas.Shares
	var clusterLabels labels.Set
	if mc := o.Clusters[cluster]; mc != nil {
		clusterLabels = mc.Labels
	}
	for i, s := range shares {
		if !slices.Contains(s.Clusters, cluster) && (s.ClusterSelector == nil || !selectorOf(s.ClusterSelector).Matches(clusterLabels)) {
			continue
		}
		if weight = 1; s.Weight != nil {
			weight = int(*s.Weight)
		}
		if s.MaxReplicas != nil {
			most = new(int(*s.MaxReplicas))
		}
		return i, weight, most
	}
	if len(shares) > 0 {
		return len(shares), 0, new(0)
	}
	return len(shares), 1, nil
}

// emptied reports whether nothing of the object runs in a cluster anymore, according to its last report. The cluster must have acknowledged the
// row, or report it as blocked: then it can't apply it.
func (s *site) emptied() bool {
	if s.live == nil || s.state == allot.Frozen || s.before.Replicas > 0 || s.grant.Replicas > 0 || s.counts.Replicas > 0 {
		return false
	}
	if _, has := granted(s.live); !has {
		return false
	}
	return s.acked || s.live.Status.Phase == fleetv1alpha1.WorkBlocked
}

// division is how the replicas of an object are divided.
type division struct {
	totals

	sites      []*site
	allocation allot.Allocation
}

// candidate is a cluster that is selected for an object.
type candidate struct {
	cluster string
	// live is its row, if any. withdrawing: the row is being withdrawn or deleted.
	live        *fleetv1alpha1.MemberWork
	withdrawing bool
	// keep: an existing row stays. gets: the row is written.
	keep, gets bool
	// available is what the cluster accepts.
	available placement.Availability
}

// divide plans for an object whose replicas are divided over the candidates. A candidate without a row counts only if it gets one.
func (p *planned) divide(o *observed, one object, fleet placement.Fleet, m content, candidates []candidate) {
	m, all, err := m.split()
	if err != nil {
		p.addProblem("", one.Kind, one.Name, fleetv1alpha1.ReasonInvalid, err.Error())
		return
	}
	d := division{totals: all}
	known := map[string]bool{}
	for _, at := range candidates {
		known[at.cluster] = true
		if at.live == nil && !at.gets {
			continue
		}
		s := o.site(one, at.cluster, at.live)
		s.stays, s.writable = at.keep, at.gets && !at.withdrawing
		s.state = at.available.State
		if at.available.Limit != nil && (s.limit == nil || *s.limit > *at.available.Limit) {
			s.limit = at.available.Limit
		}
		switch {
		case at.withdrawing, at.available.Unusable, o.suspended(at.cluster):
			s.state = allot.Frozen // A row that is being deleted counts until it is gone.
		case !at.keep:
			s.state, s.writable = allot.Draining, fleet.TakesRows(at.cluster)
		case !at.gets:
			s.state = allot.Frozen
		}
		d.sites = append(d.sites, s)
	}
	for _, cluster := range slices.Sorted(maps.Keys(fleet.Rows)) {
		if known[cluster] {
			continue
		}
		s := o.site(one, cluster, fleet.Rows[cluster])
		s.unselected, s.state, s.writable = true, allot.Draining, true
		if reason, _ := fleet.Silent(cluster); reason != "" || !s.live.DeletionTimestamp.IsZero() || o.suspended(cluster) ||
			o.replaced[row.Place(s.live)] {
			s.state, s.writable = allot.Frozen, false // Its row must not change now.
		}
		d.sites = append(d.sites, s)
	}
	slices.SortFunc(d.sites, func(a, b *site) int { return cmp.Compare(a.cluster, b.cluster) })
	d.allocate(o.spec.Replicas.Division)
	switch a := d.allocation; {
	case a.Unallocated > 0:
		p.addProblem("", one.Kind, one.Name, reasonUnallocated, a.Why)
	case a.Excess > 0:
		p.moves = append(p.moves, problem{Kind: one.Kind, Name: one.Name, Reason: reasonDividing, Message: a.Why})
	}
	for i, why := range d.transfer() {
		if why != "" {
			p.moves = append(p.moves, problem{Cluster: d.sites[i].cluster, Kind: one.Kind, Name: one.Name, Reason: reasonDividing, Message: why})
		}
	}
	d.partitions()
	p.planRows(o, one, m, d)
}

// allocate sets the targets of the sites. A cluster that is no longer selected keeps its replicas while it doesn't answer.
func (d *division) allocate(how fleetv1alpha1.ReplicaDivision) {
	members := map[int][]allot.Member{}
	for _, s := range d.sites {
		if s.unselected && s.state != allot.Frozen {
			continue
		}
		m, share := allot.Member{Cluster: s.cluster, Current: int(s.grant.Replicas), Cap: s.limit, State: s.state}, s.shareIndex
		if how == fleetv1alpha1.DivisionWeighted {
			m.Weight, share = &s.weight, 0
		}
		members[share] = append(members[share], m)
	}
	subsets := make([]allot.Subset, 0, len(members))
	for _, share := range slices.Sorted(maps.Keys(members)) {
		subset := allot.Subset{Name: strconv.Itoa(share), Members: members[share]}
		if how == fleetv1alpha1.DivisionOrdered {
			subset.Min = new(intstr.FromInt32(0)) // With a minimum, allot fills them in order.
		}
		subsets = append(subsets, subset)
	}
	d.allocation = allot.Allocate(d.replicas, subsets)
	targets := map[string]int{}
	for _, t := range d.allocation.Targets {
		targets[t.Cluster] = t.Replicas
	}
	for _, s := range d.sites {
		s.target = targets[s.cluster]
	}
}

// transfer sets the next grants of the sites. For each site it returns a sentence if replicas move or wait there, or "" otherwise.
func (d *division) transfer() []string {
	holdings, barred := make([]allot.Holding, len(d.sites)), d.allocation.Barred
	for i, s := range d.sites {
		if s.unselected && s.state != allot.Frozen {
			barred -= int(s.grant.Replicas) // They have to move: none may be removed before it is available elsewhere.
		}
		available, _ := allot.Clamp(int(s.counts.Available))
		holdings[i] = allot.Holding{
			Key: allot.Key{Cluster: s.cluster}, Target: s.target, Acked: s.acked, Available: available, Dark: s.state == allot.Frozen,
			Grant: allot.Grant{Replicas: int(s.grant.Replicas), Upper: int(s.grant.Upper), Lower: int(s.grant.Lower)},
		}
	}
	moves := make([]string, len(d.sites))
	for i, step := range allot.Transfer(placement.Limits(nil, d.replicas, max(barred, 0)), holdings) {
		g := &d.sites[i].grant
		g.Replicas, g.Lower, g.Upper = int32(step.Replicas), int32(step.Lower), int32(step.Upper) //nolint:gosec // They are clamped.
		moves[i] = step.Why
	}
	return moves
}

// partitions divides a partition over the clusters in proportion to their targets. Pods in a cluster that is being emptied are not updated
// before they are deleted.
func (d *division) partitions() {
	list := make([]allot.Target, len(d.sites))
	for i, s := range d.sites {
		s.grant.Partition = 0
		list[i] = allot.Target{Key: allot.Key{Cluster: s.cluster}, Replicas: s.target}
	}
	if d.partition == nil {
		return
	}
	for i, n := range allot.Partitions(map[string]int{"": *d.partition}, list) {
		s := d.sites[i]
		if s.grant.Partition = min(int32(n), s.grant.Replicas); !s.stays { //nolint:gosec // At most the replicas.
			s.grant.Partition = s.grant.Replicas
		}
	}
}

// planRows adds the rows of an object to the plan. Clusters that are being emptied have their row withdrawn once they are empty.
func (p *planned) planRows(o *observed, one object, m content, d division) {
	missing := 0
	for _, s := range d.sites {
		part := s.part(one)
		p.parts = append(p.parts, part)
		missing += int(part.Desired) - int(part.Available) // Surplus replicas of one cluster make up for those that another one lacks.
		if !s.stays && s.live != nil {
			p.emptying[s.cluster] = true
		}
		switch {
		case s.live != nil && !s.live.DeletionTimestamp.IsZero(): // It gets a new row when this one is gone.
		case !s.stays && s.emptied():
			p.Withdrawals = append(p.Withdrawals, placement.Withdrawal{Row: s.live, Policy: o.leavePolicy(false)})
		case s.writable:
			p.want(o, one, m, s.cluster, &s.grant)
		case !s.stays:
			p.kept[row.Place(s.live)] = true
		}
	}
	p.missingReplicas += max(missing, 0)
}

// part returns the status line of an object in a cluster. Numbers that a member reports are limited to plausible values.
func (s *site) part(one object) fleetv1alpha1.PropagationPart {
	return fleetv1alpha1.PropagationPart{
		Kind: one.Kind, Name: one.Name, Cluster: s.cluster,
		Desired: int32(s.target), Granted: s.grant.Replicas, //nolint:gosec // They are clamped.
		Available: placement.PlausibleFor(s.grant.Replicas).Cut(s.counts.Available),
	}
}

// suspended reports whether changes to a cluster are suspended.
func (o *observed) suspended(cluster string) bool {
	s := o.spec.Suspend
	return s != nil && (s.All || slices.Contains(s.Clusters, cluster))
}
