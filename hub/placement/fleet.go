package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Fleet is the input for the placement of one object. It points into the cache and must not be changed.
type Fleet struct {
	// Clusters are all MemberClusters by name.
	Clusters map[string]*fleetv1alpha1.MemberCluster
	// Rows are the object's rows by cluster, or by Place for a source with several objects.
	Rows map[string]*fleetv1alpha1.MemberWork
	// Doubles are additional rows for an object and cluster that already have an older row. Nothing is planned for them.
	Doubles []*fleetv1alpha1.MemberWork
	// Tolerations are the tolerations of the object. Without any, it tolerates no taint. Now is the time that their tolerationSeconds are
	// compared with. It is not needed if none of them has tolerationSeconds.
	Tolerations []fleetv1alpha1.ClusterToleration
	Now         time.Time
	// Kinds are the kinds that the object needs in a member.
	Kinds []schema.GroupKind
}

// Availability describes what can be placed in a cluster.
type Availability struct {
	// State says whether the cluster can get and lose replicas.
	State allot.State
	// Limit is the maximum number of replicas of one object that the cluster takes; nil means no limit.
	Limit *int
	// Unusable is true if the cluster can have no row: it is unknown, and then also Awaited, or it is leaving.
	Unusable bool
	// Reason and Message say why the cluster is not ready. They are empty if it is.
	Reason, Message string
}

// AnyNamespace stands for namespaces of a member that are not selected by name.
const AnyNamespace = "*"

// Availability returns what can be placed in a cluster for an object that writes to these namespaces.
func (f Fleet) Availability(cluster string, namespaces ...string) Availability {
	mc := f.Clusters[cluster]
	switch {
	case mc == nil && f.Rows[cluster] == nil:
		return Availability{
			State: allot.Awaited, Unusable: true, Reason: ReasonUnknownCluster,
			Message: fmt.Sprintf("there is no member cluster %s: create it, or name another one", cluster),
		}
	case mc == nil:
		return frozen(ReasonUnknownCluster, "member cluster %s is gone, but its rows still exist: nothing is changed there", cluster)
	case !mc.DeletionTimestamp.IsZero():
		return Availability{
			Unusable: true, Reason: reasonLeaving, Message: fmt.Sprintf("cluster %s is leaving the fleet: name another one", cluster),
		}
	case !mc.Spec.Accepted:
		return f.awaited(cluster, frozen(ReasonNotAccepted, "cluster %s is not accepted: run kubectl kruise cluster accept %s", cluster, cluster))
	case !joined(mc) && !unsteady(mc):
		return f.awaited(cluster, frozen(ReasonNotJoined, "cluster %s has not joined yet", cluster))
	case !ready(mc):
		reason, why := unready(mc)
		a := frozen(reason, "cluster %s %s: its part stays as it is", cluster, why)
		if !joined(mc) {
			return f.awaited(cluster, a)
		}
		return a
	}
	a := Availability{State: allot.Ready}
	limits := mc.Spec.Limits
	if kind := f.unserved(mc); kind != "" && f.Rows[cluster] == nil {
		return Availability{
			State: allot.Awaited, Reason: fleetv1alpha1.ReasonKindNotServed,
			Message: fmt.Sprintf("cluster %s does not serve %s, or its agent may not write it: install it there, allow it in hub.kinds of "+
				"its chart flotilla-member, or name another cluster", cluster, kind),
		}
	}
	if limits == nil {
		return f.taint(mc, a)
	}
	if limits.MaxReplicasPerObject != nil {
		a.Limit = new(int(*limits.MaxReplicasPerObject))
	}
	for _, kind := range f.Kinds {
		if len(limits.AllowedKinds) == 0 || slices.Contains(limits.AllowedKinds, fleetv1alpha1.GroupKind{Group: kind.Group, Kind: kind.Kind}) {
			continue
		}
		a.State, a.Reason = allot.Draining, fleetv1alpha1.ReasonKindNotAllowed
		a.Message = fmt.Sprintf("cluster %s does not allow objects of kind %s: add it to the cluster's limits.allowedKinds", cluster, kind)
		return a
	}
	for _, namespace := range namespaces {
		if len(limits.AllowedNamespaces) == 0 || slices.Contains(limits.AllowedNamespaces, namespace) {
			continue
		}
		a.State, a.Reason = allot.Draining, fleetv1alpha1.ReasonNamespaceNotAllowed
		a.Message = fmt.Sprintf("cluster %s does not allow objects in namespace %s: add it to the cluster's limits.allowedNamespaces", cluster, namespace)
		if namespace == AnyNamespace {
			a.Message = fmt.Sprintf("cluster %s only allows objects in its limits.allowedNamespaces: select namespaces by name", cluster)
		}
		return a
	}
	return f.taint(mc, a)
}

// unserved returns a kind that the object needs and that a cluster doesn't serve, according to its agent. It returns "" if there is none or
// that is unknown. Such a kind prevents new rows but is no reason to withdraw one: an existing row reports the missing kind itself, and
// waits.
func (f Fleet) unserved(mc *fleetv1alpha1.MemberCluster) string {
	served := mc.Status.Kinds
	if len(served) == 0 || len(served) >= fleetv1alpha1.MaxServedKinds {
		return ""
	}
	for _, kind := range f.Kinds {
		if !slices.ContainsFunc(served, func(s fleetv1alpha1.ServedKind) bool { return s.Group == kind.Group && s.Kind == kind.Kind }) {
			return kind.String()
		}
	}
	return ""
}

// NotAllowed reports whether a reason of Availability is a limit on what the cluster accepts.
func NotAllowed(reason string) bool {
	return reason == fleetv1alpha1.ReasonNamespaceNotAllowed || reason == fleetv1alpha1.ReasonKindNotAllowed
}

// awaited returns a with state Awaited if the object has no row in the cluster, so that nothing of it can be running there.
func (f Fleet) awaited(cluster string, a Availability) Availability {
	if f.Rows[cluster] == nil {
		a.State = allot.Awaited
	}
	return a
}

func frozen(reason, format string, args ...any) Availability {
	return Availability{State: allot.Frozen, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// TakesRows reports whether rows of a cluster may be written: it is accepted and not leaving.
func (f Fleet) TakesRows(cluster string) bool {
	mc := f.Clusters[cluster]
	return mc != nil && mc.DeletionTimestamp.IsZero() && mc.Spec.Accepted
}

// Epoch returns the epoch of grants to a cluster. There is none until the hub has prepared the namespace for its rows.
func (f Fleet) Epoch(cluster string) (epoch int64, prepared bool) {
	mc := f.Clusters[cluster]
	if mc == nil || mc.Status.Hub == nil {
		return 0, false
	}
	return mc.Status.Hub.Epoch, true
}

// Silent returns why a cluster doesn't act on its rows at the moment. The reason is empty if no obstacle is known.
func (f Fleet) Silent(cluster string) (reason, message string) {
	mc := f.Clusters[cluster]
	switch {
	case mc == nil:
		return ReasonUnknownCluster, "the member cluster is gone, but its rows still exist"
	case !mc.DeletionTimestamp.IsZero():
		return reasonLeaving, "the cluster is leaving the fleet: its leave policy applies to its part of the object"
	case !mc.Spec.Accepted:
		return ReasonNotAccepted, "the cluster is not accepted: run kubectl kruise cluster accept " + cluster
	case !ready(mc):
		reason, why := unready(mc)
		return reason, "the cluster " + why + ": its part of the object is deleted once it is back or has left"
	}
	return "", ""
}

// Stale returns the clusters that hold a row and don't act on it, so that their status is out of date.
func (f Fleet) Stale() map[string]bool {
	stale := map[string]bool{}
	for place := range f.Rows {
		cluster := row.ClusterOf(place)
		if reason, _ := f.Silent(cluster); reason != "" {
			stale[cluster] = true
		}
	}
	return stale
}

// Objects splits the Fleet of a source with several objects into a Fleet for each object, by row name. Use these for all questions about a
// cluster.
func (f Fleet) Objects() map[string]Fleet {
	out := map[string]Fleet{}
	for place, r := range f.Rows {
		cluster, name, _ := strings.Cut(place, "/")
		part, known := out[name]
		if !known {
			part = f
			part.Rows = map[string]*fleetv1alpha1.MemberWork{}
			out[name] = part
		}
		part.Rows[cluster] = r
	}
	return out
}

// Matching returns the accepted clusters whose labels match, sorted. A cluster with a taint that the object doesn't tolerate is left out,
// unless it has a row of the object.
func (f Fleet) Matching(selector labels.Selector) []string {
	var names []string
	for name, mc := range f.Clusters {
		if f.TakesRows(name) && (f.Rows[name] != nil || f.strongest(mc) == nil) && selector.Matches(labels.Set(mc.Labels)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Select returns the clusters of Matching, without those from which a taint evicts objects in that namespace now. Those clusters are emptied,
// and their rows are withdrawn.
func (f Fleet) Select(namespace string, selector labels.Selector) []string {
	return slices.DeleteFunc(f.Matching(selector), func(name string) bool { return f.evicted(name, namespace) })
}

// evicted reports whether a taint evicts objects in that namespace from a cluster now. A cluster that is unreachable evicts nothing.
func (f Fleet) evicted(cluster, namespace string) bool {
	a := f.Availability(cluster, namespace)
	return a.State == allot.Draining && a.Reason == ReasonTainted
}

// Missing returns the clusters that hold a row and have no MemberCluster, sorted. This doesn't prove that they have left.
func (f Fleet) Missing() []string {
	var names []string
	for name := range f.Rows {
		if f.Clusters[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Acknowledged reports whether a member has applied the latest generation of its row.
func Acknowledged(row *fleetv1alpha1.MemberWork) bool {
	return row.Status.ObservedGeneration == row.Generation
}

// Blocked reports whether a member reports that a row can't be applied, or that its object has failed.
func Blocked(row *fleetv1alpha1.MemberWork) bool {
	return row.Status.Phase == fleetv1alpha1.WorkBlocked || row.Status.Phase == fleetv1alpha1.WorkDegraded
}

func joined(mc *fleetv1alpha1.MemberCluster) bool {
	phase := mc.Status.Phase
	return phase != fleetv1alpha1.ClusterJoining && phase != fleetv1alpha1.ClusterPending && phase != ""
}

func ready(mc *fleetv1alpha1.MemberCluster) bool {
	return report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
}

// unready returns why a cluster that has joined is not ready.
func unready(mc *fleetv1alpha1.MemberCluster) (reason, why string) {
	if c := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionSkewSupported); c != nil && c.Status == metav1.ConditionFalse {
		return ReasonVersionSkew, "runs a version of Flotilla that is too far from the hub's"
	}
	if unsteady(mc) {
		return reasonUnsteady, "has changed between healthy and unhealthy too often"
	}
	return ReasonUnreachable, "can't be reached"
}

// unsteady reports whether the hub temporarily ignores a member's reports because they change all the time.
func unsteady(mc *fleetv1alpha1.MemberCluster) bool {
	c := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == fleetv1alpha1.ReasonUnsteady
}
