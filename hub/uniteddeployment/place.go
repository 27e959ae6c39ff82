package uniteddeployment

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// part is one subset in one cluster: what the hub wants there.
type part struct {
	allot.Key
	// name is the subset's name in the slice.
	name string
	// spec is the subset as the object says it, or, for a subset that is no more, as the slice says it.
	spec appsv1beta1.Subset
	// state is what may be done with its replicas.
	state allot.State
	// limit is the most that the cluster may run of the whole object; nil is no limit.
	limit *int
	// leftover says that the object does not ask for this part any more: it is to be emptied.
	leftover bool
	// grant is what the row says now; after planning, what it is to say.
	grant fleetv1alpha1.SubsetGrant
	// acked says that the cluster has applied its row's latest generation.
	acked bool
	// counts is what the cluster reported last.
	counts fleetv1alpha1.SubsetCounts
}

// problem is why a subset is not as asked for.
type problem struct{ subset, cluster, reason, message string }

// Reasons of problems, besides those of rows.
const (
	reasonUnknownCluster  = "UnknownCluster"
	reasonNotAccepted     = "ClusterNotAccepted"
	reasonLeaving         = "ClusterLeaving"
	reasonNotJoined       = "ClusterNotJoined"
	reasonUnreachable     = "ClusterUnreachable"
	reasonVersionSkew     = "ClusterVersionSkew"
	reasonNoCluster       = "NoClusterMatches"
	reasonNameTaken       = "SubsetNameTaken"
	reasonTooManySubsets  = "TooManySubsets"
	reasonPaused          = "WithdrawalsPaused"
	reasonRunsHere        = "RunsInThisCluster"
	reasonPartition       = "PartitionDiffers"
	reasonNamespaceBarred = fleetv1alpha1.ReasonNamespaceNotAllowed
)

// place lists the parts that the object asks for, in the order of its subsets and then of cluster names, and behind
// them those that only the slices still hold.
func place(o *observed) ([]part, []problem) {
	var parts []part
	var problems []problem
	taken := map[allot.Key]bool{} // slice-level names by cluster
	for _, subset := range o.ud.Spec.Topology.Subsets {
		clusters, found := clustersOf(o, subset)
		problems = append(problems, found...)
		for _, cluster := range clusters {
			name := sliceName(subset, cluster)
			at := allot.Key{Subset: name, Cluster: cluster}
			p := o.part(allot.Key{Subset: subset.Name, Cluster: cluster}, name, subset)
			switch {
			case taken[at]:
				problems = append(problems, problem{
					subset.Name, cluster, reasonNameTaken,
					fmt.Sprintf("another subset is named %s in cluster %s: rename one of them", name, cluster),
				})
				continue
			case len(validation.IsDNS1123Label(name)) > 0:
				problems = append(problems, problem{
					subset.Name, cluster, reasonNameTaken,
					fmt.Sprintf("the name %s for cluster %s is no DNS label of at most 63 characters: shorten the subset's name", name, cluster),
				})
				continue
			case countIn(parts, cluster) >= fleetv1alpha1.SubsetsPerRow:
				problems = append(problems, problem{
					subset.Name, cluster, reasonTooManySubsets,
					fmt.Sprintf("cluster %s has %d subsets of this object already, which is the most: join some of them", cluster, fleetv1alpha1.SubsetsPerRow),
				})
				continue
			}
			taken[at] = true
			judged, found := o.judge(p)
			problems = append(problems, found...)
			if judged != nil {
				parts = append(parts, *judged)
			}
		}
	}
	return append(parts, leftovers(o, taken)...), problems
}

// part fills in what the cluster's row says of a subset.
func (o *observed) part(key allot.Key, name string, spec appsv1beta1.Subset) part {
	p := part{Key: key, name: name, spec: spec, grant: fleetv1alpha1.SubsetGrant{Name: name}, counts: fleetv1alpha1.SubsetCounts{Name: name}}
	row := o.rows[key.Cluster]
	if row == nil {
		p.acked = true // nothing was asked, so nothing can be running
		return p
	}
	p.acked = acked(row)
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

// acked tells whether a member has applied its row's latest generation.
func acked(row *fleetv1alpha1.MemberWork) bool {
	return row.Status.ObservedGeneration == row.Generation
}

// judge says what may be done in a part's cluster. It returns nil where the cluster can't be counted with at all.
func (o *observed) judge(p part) (*part, []problem) {
	say := func(reason, format string, args ...any) []problem {
		return []problem{{p.Subset, p.Cluster, reason, fmt.Sprintf(format, args...)}}
	}
	cluster, row := o.clusters[p.Cluster], o.rows[p.Cluster]
	switch {
	case cluster == nil && row == nil:
		return nil, say(reasonUnknownCluster, "there is no member cluster %s: create it, or name another one in this subset", p.Cluster)
	case cluster == nil:
		p.state = allot.Frozen
		return &p, say(reasonUnknownCluster, "the member cluster %s is gone, but its rows are not: nothing is changed there", p.Cluster)
	case !cluster.DeletionTimestamp.IsZero():
		return nil, say(reasonLeaving, "cluster %s leaves the fleet: name another one in this subset", p.Cluster)
	case !cluster.Spec.Accepted:
		p.state = allot.Frozen
		return &p, say(reasonNotAccepted, "cluster %s is not accepted: run kubectl kruise cluster accept %s", p.Cluster, p.Cluster)
	case cluster.Status.Phase == fleetv1alpha1.ClusterJoining || cluster.Status.Phase == fleetv1alpha1.ClusterPending || cluster.Status.Phase == "":
		p.state = allot.Frozen
		return &p, say(reasonNotJoined, "cluster %s has not joined yet", p.Cluster)
	case !report.IsConditionTrue(cluster.Status.Conditions, fleetv1alpha1.ConditionReady):
		p.state = allot.Frozen
		reason, why := unready(cluster)
		return &p, say(reason, "cluster %s %s: its replicas stay as they are", p.Cluster, why)
	}
	limits := cluster.Spec.Limits
	if limits == nil {
		return &p, nil
	}
	if limits.MaxReplicasPerObject != nil {
		most := int(*limits.MaxReplicasPerObject)
		p.limit = &most
	}
	if len(limits.AllowedNamespaces) > 0 && !slices.Contains(limits.AllowedNamespaces, o.ud.Namespace) {
		p.state = allot.Draining
		return &p, say(reasonNamespaceBarred, "cluster %s does not take objects of namespace %s: add it to the cluster's limits.allowedNamespaces", p.Cluster, o.ud.Namespace)
	}
	return &p, nil
}

// clustersOf names the clusters of a subset, sorted.
func clustersOf(o *observed, subset appsv1beta1.Subset) ([]string, []problem) {
	if subset.ClusterSelector == nil {
		return []string{subset.Cluster}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(subset.ClusterSelector)
	if err != nil { // admission refuses it; an object from before that must not stop the others
		return nil, []problem{{subset.Name, "", reasonNoCluster, fmt.Sprintf("clusterSelector: %v", err)}}
	}
	var names []string
	for name, cluster := range o.clusters {
		if cluster.DeletionTimestamp.IsZero() && cluster.Spec.Accepted && selector.Matches(labels.Set(cluster.Labels)) {
			names = append(names, name)
		}
	}
	// A cluster whose object is missing from what we read is no proof that it left: its part stays.
	for name, row := range o.rows {
		if o.clusters[name] == nil && holds(row, sliceName(subset, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, []problem{{
			subset.Name, "", reasonNoCluster,
			fmt.Sprintf("no accepted member cluster has the labels %s", selector),
		}}
	}
	return names, nil
}

func holds(row *fleetv1alpha1.MemberWork, name string) bool {
	return slices.ContainsFunc(row.Spec.Grant.Subsets, func(g fleetv1alpha1.SubsetGrant) bool { return g.Name == name })
}

// sliceName is the name of a subset in a cluster's slice.
func sliceName(subset appsv1beta1.Subset, cluster string) string {
	if subset.ClusterSelector == nil {
		return subset.Name
	}
	return subset.Name + "-" + cluster
}

// silent says why a cluster won't do what its row says now; the reason is empty where nothing is known to be in the way.
func (o *observed) silent(cluster string) (reason, why string) {
	mc := o.clusters[cluster]
	switch {
	case mc == nil:
		return reasonUnknownCluster, "the member cluster is gone, but its rows are not"
	case !mc.DeletionTimestamp.IsZero():
		return reasonLeaving, "the cluster leaves the fleet: what it holds of the object goes by its leave policy"
	case !mc.Spec.Accepted:
		return reasonNotAccepted, "the cluster is not accepted: run kubectl kruise cluster accept " + cluster
	case !report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady):
		reason, why := unready(mc)
		return reason, "the cluster " + why + ": what it holds of the object goes when it is back or has left"
	}
	return "", ""
}

// unready says why a cluster that has joined is not ready.
func unready(mc *fleetv1alpha1.MemberCluster) (reason, why string) {
	if c := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionSkewSupported); c != nil && c.Status == metav1.ConditionFalse {
		return reasonVersionSkew, "runs a version of Flotilla that is too far from the hub's"
	}
	return reasonUnreachable, "can't be reached"
}

// leftovers are the parts that rows hold and the object does not ask for any more. Those of rows that are going are
// empty already.
func leftovers(o *observed, taken map[allot.Key]bool) []part {
	return slices.DeleteFunc(rest(o), func(p part) bool {
		return taken[allot.Key{Subset: p.name, Cluster: p.Cluster}] || !o.rows[p.Cluster].DeletionTimestamp.IsZero()
	})
}

// rest are all parts that rows hold, as leftovers. They keep the form that they have in the slice, because a subset's
// place can't be changed while it has pods.
func rest(o *observed) []part {
	var out []part
	for cluster, row := range o.rows {
		reason, _ := o.silent(cluster)
		for _, g := range row.Spec.Grant.Subsets {
			p := o.part(allot.Key{Subset: g.Name, Cluster: cluster}, g.Name, appsv1beta1.Subset{Name: g.Name})
			p.leftover = true
			if slice := o.slices[cluster]; slice != nil {
				for _, s := range slice.Spec.Topology.Subsets {
					if s.Name == g.Name {
						p.spec = s
					}
				}
			}
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

func countIn(parts []part, cluster string) int {
	n := 0
	for _, p := range parts {
		if p.Cluster == cluster {
			n++
		}
	}
	return n
}
