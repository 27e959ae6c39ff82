package uniteddeployment

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// part is one subset in one cluster.
type part struct {
	allot.Key
	// name is the subset's name in the slice.
	name string
	// spec is the subset of the object, or of the slice if the object no longer has it. It is empty for a row that is being deleted.
	spec appsv1beta1.Subset
	// state says whether the cluster can get and lose replicas.
	state allot.State
	// reason and message say why the cluster is not ready. They are empty if it is.
	reason, message string
	// limit is the maximum number of replicas of the whole object that the cluster takes; nil means no limit.
	limit *int
	// leftover is true if the object no longer has this part, so it is scaled to 0.
	leftover bool
	// grant is the grant that the row has now. After planning, it is the next grant.
	grant fleetv1alpha1.SubsetGrant
	// outdated is true if counts may be about another revision than the one that is rolled out over the clusters.
	outdated bool
	// acked is true if the cluster has acknowledged the latest generation of its row.
	acked bool
	// counts is the cluster's last report.
	counts fleetv1alpha1.SubsetCounts
}

// Reasons of problems. Packages placement and row define others.
const (
	reasonNoCluster      = "NoClusterMatches"
	reasonNameTaken      = "SubsetNameTaken"
	reasonTooManySubsets = "TooManySubsets"
	reasonRunsHere       = "RunsInThisCluster"
	reasonPartition      = "PartitionDiffers"
)

// divide lists the parts of the object in the order of its subsets and then of cluster names, followed by the parts that only slices still
// have.
func divide(o *observed) ([]part, []placement.Problem) {
	var parts []part
	var problems []placement.Problem
	taken := map[allot.Key]bool{} // by the name in the slice
	count := map[string]int{}     // parts by cluster
	for _, subset := range o.ud.Spec.Topology.Subsets {
		clusters, found := clustersOf(o, subset)
		problems = append(problems, found...)
		for _, cluster := range clusters {
			name := sliceName(subset, cluster)
			at := allot.Key{Subset: name, Cluster: cluster}
			p := o.part(allot.Key{Subset: subset.Name, Cluster: cluster}, name, subset)
			switch {
			case taken[at]:
				problems = append(problems, placement.Problem{
					Subset: subset.Name, Cluster: cluster, Reason: reasonNameTaken,
					Message: fmt.Sprintf("another subset is named %s in cluster %s: rename one of them", name, cluster),
				})
				continue
			case len(validation.IsDNS1123Label(name)) > 0:
				problems = append(problems, placement.Problem{
					Subset: subset.Name, Cluster: cluster, Reason: reasonNameTaken,
					Message: fmt.Sprintf("the name %s for cluster %s is not a DNS label of at most 63 characters: shorten the subset's name", name, cluster),
				})
				continue
			case count[cluster] >= fleetv1alpha1.SubsetsPerRow:
				problems = append(problems, placement.Problem{
					Subset: subset.Name, Cluster: cluster, Reason: reasonTooManySubsets,
					Message: fmt.Sprintf("cluster %s already has %d subsets of this object, the maximum: merge some of them", cluster, fleetv1alpha1.SubsetsPerRow),
				})
				continue
			}
			taken[at] = true
			usable, found := o.available(&p)
			problems = append(problems, found...)
			if usable {
				parts = append(parts, p)
				count[cluster]++
			}
		}
	}
	return append(parts, leftovers(o, taken)...), problems
}

// part returns a subset in a cluster with its grant and status from the row.
func (o *observed) part(key allot.Key, name string, spec appsv1beta1.Subset) part {
	p := part{Key: key, name: name, spec: spec, grant: fleetv1alpha1.SubsetGrant{Name: name}, counts: fleetv1alpha1.SubsetCounts{Name: name}}
	row := o.Rows[key.Cluster]
	if row == nil {
		p.acked = true // Nothing was granted, so nothing can be running.
		return p
	}
	p.acked = placement.Acknowledged(row)
	for _, g := range row.Spec.Grant.Subsets {
		if g.Name == name {
			p.grant = g
		}
	}
	for _, c := range row.Status.Subsets {
		if c.Name == name {
			p.counts = c
		}
	}
	return p
}

// available adds what can be placed in its cluster to a part. It returns false if the cluster is excluded from the division. A cluster that
// the object names and that doesn't exist yet is not excluded: replicas wait for it.
func (o *observed) available(p *part) (bool, []placement.Problem) {
	a := o.Availability(p.Cluster, o.ud.Namespace)
	p.state, p.limit, p.reason, p.message = a.State, a.Limit, a.Reason, a.Message
	if a.Reason == "" || a.Reason == placement.ReasonTainted { // A taint is a problem only if replicas lack a place: see tainted.
		return true, nil
	}
	return !a.Unusable || a.State == allot.Awaited, []placement.Problem{{Subset: p.Subset, Cluster: p.Cluster, Reason: a.Reason, Message: a.Message}}
}

// clustersOf returns the names of the clusters of a subset, sorted.
func clustersOf(o *observed, subset appsv1beta1.Subset) ([]string, []placement.Problem) {
	if subset.ClusterSelector == nil {
		return []string{subset.Cluster}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(subset.ClusterSelector)
	if err != nil { // Admission refuses it, but an object that is already stored must not block the others.
		return nil, []placement.Problem{{Subset: subset.Name, Reason: reasonNoCluster, Message: fmt.Sprintf("clusterSelector: %v", err)}}
	}
	names := o.Select(o.ud.Namespace, selector)
	for _, name := range o.Missing() {
		if hasSubset(o.Rows[name], sliceName(subset, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, []placement.Problem{{
			Subset: subset.Name, Reason: reasonNoCluster,
			Message: fmt.Sprintf("no accepted member cluster has the labels %s and only taints that the object tolerates", selector),
		}}
	}
	return names, nil
}

// tainted returns a problem for each part that can't take replicas because of a taint.
func tainted(parts []part) []placement.Problem {
	var out []placement.Problem
	for _, p := range parts {
		if p.reason == placement.ReasonTainted {
			out = append(out, placement.Problem{Subset: p.Subset, Cluster: p.Cluster, Reason: p.reason, Message: p.message})
		}
	}
	return out
}

func hasSubset(row *fleetv1alpha1.MemberWork, name string) bool {
	return slices.ContainsFunc(row.Spec.Grant.Subsets, func(g fleetv1alpha1.SubsetGrant) bool { return g.Name == name })
}

// sliceName returns the name of a subset in the slice of a cluster.
func sliceName(subset appsv1beta1.Subset, cluster string) string {
	if subset.ClusterSelector == nil {
		return subset.Name
	}
	return subset.Name + "-" + cluster
}

// leftovers returns the parts that rows have and the object doesn't. Parts in rows that are being deleted are already empty. Leftovers stay
// as they are in the slice, because the node selector and tolerations of a subset can't be changed while it has pods.
func leftovers(o *observed, taken map[allot.Key]bool) []part {
	out := slices.DeleteFunc(heldParts(o), func(p part) bool {
		return taken[allot.Key{Subset: p.name, Cluster: p.Cluster}] || !o.Rows[p.Cluster].DeletionTimestamp.IsZero()
	})
	for i := range out {
		for _, s := range o.sliceSubsets(out[i].Cluster) {
			if s.Name == out[i].name {
				out[i].spec = s
			}
		}
	}
	return out
}

// heldParts returns all parts that rows have, as leftovers, without the spec that they have in the slice.
func heldParts(o *observed) []part {
	var out []part
	for cluster, row := range o.Rows {
		reason, _ := o.Silent(cluster)
		for _, g := range row.Spec.Grant.Subsets {
			p := o.part(allot.Key{Subset: g.Name, Cluster: cluster}, g.Name, appsv1beta1.Subset{Name: g.Name})
			p.leftover = true
			if reason != "" {
				p.state = allot.Frozen
			}
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.name, b.name))
	})
	return out
}

// allocate returns where the replicas should run. Leftovers are excluded and get none.
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

// replicas returns the desired total. It is 1 if spec.replicas is not set.
func replicas(ud *appsv1beta1.UnitedDeployment) int {
	if ud.Spec.Replicas == nil {
		return 1
	}
	return int(*ud.Spec.Replicas)
}

// targetsOf returns the target of each part.
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

// partitionsOf divides the partitions of subsets over their clusters in proportion to the targets, so that a cluster that is being filled has
// its share from the start.
func partitionsOf(ud *appsv1beta1.UnitedDeployment, parts []part, targets []int) []int {
	asked := map[string]int{}
	if m := ud.Spec.UpdateStrategy.ManualUpdate; m != nil && united.Unpartitioned(&ud.Spec.Template) == "" {
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
			kept[i] = int(p.grant.Replicas) // Pods of a leftover are not updated before they are deleted.
		}
	}
	return kept
}

// holdings returns the input for allot.Transfer.
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

// barred returns how many replicas are excluded by maximums. Replicas of leftovers don't count: they have to move, but their number must not
// shrink.
func barred(a allot.Allocation, parts []part) int {
	n := a.Barred
	for _, p := range parts {
		if p.leftover {
			n -= int(p.grant.Replicas)
		}
	}
	return max(n, 0)
}
