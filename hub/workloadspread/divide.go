package workloadspread

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// part is one subset in one cluster.
type part struct {
	allot.Key
	// spec is the subset in the object.
	spec appsv1beta1.WorkloadSpreadSubset
	// most is maxReplicas as a number, for all clusters of the subset together; nil means no limit.
	most *int
	// current is how many replicas the subset is granted there now, and target how many it should have.
	current, target int
	// counts is the cluster's last report.
	counts fleetv1alpha1.WorkCounts
}

// name returns the subset's name in the status.
func (p part) name() string {
	if p.spec.ClusterSelector == nil {
		return p.Subset
	}
	return p.Subset + "-" + p.Cluster
}

// site is a cluster that has, or should have, replicas or a slice.
type site struct {
	cluster string
	// parts are the subsets there, in order. A cluster without parts is to be emptied.
	parts []*part
	// state says whether the cluster can get and lose replicas. limit is the maximum number that it takes; nil means no limit.
	state allot.State
	limit *int
	// taint says what a taint of the cluster does to the object. It is empty if no taint matters.
	taint string
	// grant is the grant in the row of the copy. After planning, it is the next grant. acked is true if the cluster has acknowledged the row.
	grant  fleetv1alpha1.SubsetGrant
	acked  bool
	counts fleetv1alpha1.WorkCounts
	// open says whether pods can be scheduled there. It is used only with Adaptive.
	open openness
}

// target returns how many replicas the cluster should have.
func (s *site) target() int {
	n := 0
	for _, p := range s.parts {
		n += p.target
	}
	return n
}

// grantName is the name of the only grant in the row of a copy.
const grantName = "replicas"

// Reasons of problems. Packages placement and row define others.
const (
	reasonNoCluster      = "NoClusterMatches"
	reasonTooManySubsets = "TooManySubsets"
)

// division is where the replicas of an object should run.
type division struct {
	total int
	// placement limits how replicas move; nil means the default.
	placement *pods.Placement
	// parts are in the order of subsets and then of cluster names. sites are in the order of cluster names.
	parts      []*part
	sites      []*site
	allocation allot.Allocation
	problems   []placement.Problem
	// recheck is how soon a cluster gets new pods again; 0 means never.
	recheck time.Duration
}

// divide divides the replicas over the subsets, in order, and over their clusters.
func divide(o *observed, now time.Time) division {
	d := division{total: o.kind.replicas(o.target), placement: o.ws.Spec.Placement}
	sites := map[string]*site{}
	for i, subset := range o.ws.Spec.Subsets {
		for _, cluster := range d.clustersOf(o, subset) {
			s := sites[cluster]
			if s == nil {
				a := o.copies.Availability(cluster, o.ws.Namespace)
				if a.Reason != "" && a.Reason != placement.ReasonTainted {
					d.problems = append(d.problems, placement.Problem{Subset: subset.Name, Cluster: cluster, Reason: a.Reason, Message: a.Message})
				}
				if a.Unusable {
					continue
				}
				s = o.site(cluster)
				s.state, s.limit = a.State, a.Limit
				if a.Reason == placement.ReasonTainted { // This is a problem only if replicas lack a place.
					s.taint = a.Message
				}
				sites[cluster] = s
			}
			if len(s.parts) >= fleetv1alpha1.SubsetsPerRow {
				d.problems = append(d.problems, placement.Problem{
					Subset: subset.Name, Cluster: cluster, Reason: reasonTooManySubsets,
					Message: fmt.Sprintf("cluster %s already has %d subsets of this object, the maximum: merge some of them", cluster, fleetv1alpha1.SubsetsPerRow),
				})
				continue
			}
			p := o.part(subset, cluster, most(&o.ws.Spec.Subsets[i], d.total))
			s.parts, d.parts = append(s.parts, p), append(d.parts, p)
		}
	}
	for _, rows := range []map[string]*fleetv1alpha1.MemberWork{o.copies.Rows, o.slices.Rows} {
		for cluster := range rows {
			if sites[cluster] == nil {
				sites[cluster] = o.site(cluster)
				if reason, _ := o.copies.Silent(cluster); reason != "" {
					sites[cluster].state = allot.Frozen
				}
			}
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(sites)) {
		d.sites = append(d.sites, sites[cluster])
	}
	for _, s := range d.sites {
		s.fill()
	}
	d.adapt(o, now)
	d.allocate(o)
	return d
}

// clustersOf returns the names of the clusters of a subset, sorted.
func (d *division) clustersOf(o *observed, subset appsv1beta1.WorkloadSpreadSubset) []string {
	if subset.ClusterSelector == nil {
		return []string{subset.Cluster}
	}
	selector, err := metav1.LabelSelectorAsSelector(subset.ClusterSelector)
	if err != nil { // Admission refuses it, but an object that is already stored must not block the others.
		d.problems = append(d.problems, placement.Problem{Subset: subset.Name, Reason: reasonNoCluster, Message: fmt.Sprintf("clusterSelector: %v", err)})
		return nil
	}
	names := o.copies.Select(o.ws.Namespace, selector)
	for _, name := range o.slices.Missing() { // Its labels are no longer known, but the slice has its subsets.
		if hasSubset(o.slices.Rows[name], subset.Name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		d.problems = append(d.problems, placement.Problem{
			Subset: subset.Name, Reason: reasonNoCluster,
			Message: fmt.Sprintf("no accepted member cluster has the labels %s and only taints that the object tolerates", selector),
		})
	}
	return names
}

// hasSubset reports whether a slice has a subset.
func hasSubset(row *fleetv1alpha1.MemberWork, subset string) bool {
	return slices.ContainsFunc(row.Spec.Grant.Subsets, func(g fleetv1alpha1.SubsetGrant) bool { return g.Name == subset })
}

// most resolves maxReplicas. A value that can't be resolved, which admission refuses, counts as no limit.
func most(s *appsv1beta1.WorkloadSpreadSubset, total int) *int {
	if s.MaxReplicas == nil {
		return nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(s.MaxReplicas, total, true)
	if err != nil {
		return nil
	}
	return new(max(n, 0))
}

// part returns a subset in a cluster with what the cluster reports about it.
func (o *observed) part(subset appsv1beta1.WorkloadSpreadSubset, cluster string, most *int) *part {
	p := &part{Key: allot.Key{Subset: subset.Name, Cluster: cluster}, spec: subset, most: most}
	if row := o.slices.Rows[cluster]; row != nil {
		for _, c := range row.Status.Subsets {
			if c.Name == subset.Name {
				p.counts = c.WorkCounts
			}
		}
	}
	return p
}

// site returns a cluster with the grant of its row.
func (o *observed) site(cluster string) *site {
	s := &site{cluster: cluster, grant: fleetv1alpha1.SubsetGrant{Name: grantName}, acked: true}
	row := o.copies.Rows[cluster]
	if row == nil {
		return s // Nothing was granted, so nothing can be running.
	}
	s.acked, s.counts = placement.Acknowledged(row), row.Status.Counts
	for _, g := range row.Spec.Grant.Subsets {
		if g.Name == grantName {
			s.grant = g
		}
	}
	return s
}

// fill distributes what a cluster is granted over its subsets, in order.
func (s *site) fill() {
	left := int(s.grant.Replicas)
	for i, p := range s.parts {
		p.current = left
		if p.most != nil && i < len(s.parts)-1 {
			p.current = min(left, *p.most)
		}
		left -= p.current
	}
}

// allocate sets the targets of parts.
func (d *division) allocate(o *observed) {
	sites := make(map[string]*site, len(d.sites))
	for _, s := range d.sites {
		sites[s.cluster] = s
	}
	subsets := make([]allot.Subset, 0, len(o.ws.Spec.Subsets))
	for _, s := range o.ws.Spec.Subsets {
		// With a minimum, subsets are filled in order, even if none has a maximum.
		subset := allot.Subset{Name: s.Name, Min: new(intstr.FromInt32(0))}
		for _, p := range d.parts {
			if p.Subset != s.Name {
				continue
			}
			if p.most != nil {
				subset.Max = new(intstr.FromInt(*p.most))
			}
			at := sites[p.Cluster]
			subset.Members = append(subset.Members, allot.Member{Cluster: p.Cluster, Current: p.current, Cap: at.most(), State: at.state})
		}
		subsets = append(subsets, subset)
	}
	d.allocation = allot.Allocate(d.total, subsets)
	for _, s := range d.sites {
		if d.allocation.Unallocated > 0 && s.taint != "" {
			d.problems = append(d.problems, placement.Problem{Cluster: s.cluster, Reason: placement.ReasonTainted, Message: s.taint})
		}
	}
	targets := make(map[allot.Key]int, len(d.allocation.Targets))
	for _, t := range d.allocation.Targets {
		targets[t.Key] = t.Replicas
	}
	for _, p := range d.parts {
		p.target = targets[p.Key]
	}
}

// most returns the maximum number of replicas that a cluster takes; nil means no limit.
func (s *site) most() *int {
	switch {
	case s.limit == nil:
		return s.open.most
	case s.open.most == nil:
		return s.limit
	}
	return new(min(*s.limit, *s.open.most))
}

// transfer sets the next grants of the clusters. Clusters that are not ready don't grow. It returns a sentence for each move, which says what
// the move waits for.
func (d *division) transfer(ready map[string]bool) []string {
	holdings, barred := make([]allot.Holding, len(d.sites)), d.allocation.Barred
	for i, s := range d.sites {
		target := s.target()
		if !ready[s.cluster] {
			target = min(target, int(s.grant.Replicas))
		}
		if len(s.parts) == 0 {
			barred -= int(s.grant.Replicas) // These replicas have to move, but their number must not shrink.
		}
		available, _ := allot.Clamp(int(s.counts.Available))
		holdings[i] = allot.Holding{
			Key: allot.Key{Cluster: s.cluster}, Target: target, Acked: s.acked, Available: available, Dark: s.state == allot.Frozen,
			Grant: allot.Grant{Replicas: int(s.grant.Replicas), Upper: int(s.grant.Upper), Lower: int(s.grant.Lower)},
		}
	}
	limits := placement.Limits(d.placement, d.total, max(barred, 0))
	var moves []string
	for i, step := range allot.Transfer(limits, holdings) {
		s := d.sites[i]
		s.grant.Replicas, s.grant.Lower, s.grant.Upper = int32(step.Replicas), int32(step.Lower), int32(step.Upper) //nolint:gosec // bounded by spec.replicas
		if step.Why != "" {
			moves = append(moves, step.Why)
		}
		if target := s.target(); !ready[s.cluster] && target > step.Replicas {
			moves = append(moves, fmt.Sprintf("waits to grow from %d to %d in %s: it has not applied its WorkloadSpread yet", step.Replicas, target, s.cluster))
		}
	}
	return moves
}

// partitions divides the partition of the workload over the clusters in proportion to the targets, so that a cluster that is being filled has
// its share from the start. Pods in a cluster that is being emptied are not updated before they are deleted.
func (d *division) partitions(partition int) {
	list := make([]allot.Target, len(d.sites))
	for i, s := range d.sites {
		list[i] = allot.Target{Key: allot.Key{Cluster: s.cluster}, Replicas: s.target()}
	}
	for i, n := range allot.Partitions(map[string]int{"": partition}, list) {
		s := d.sites[i]
		s.grant.Partition = min(int32(n), s.grant.Replicas) //nolint:gosec // at most the replicas
		if len(s.parts) == 0 {
			s.grant.Partition = s.grant.Replicas
		}
	}
}
