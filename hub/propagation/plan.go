package propagation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// Reasons for problems and conditions. Packages placement and fleetv1alpha1 define others.
const (
	// reasonNoCluster and reasonNoObject mean that no cluster or no object is selected.
	reasonNoCluster = "NoCluster"
	reasonNoObject  = "NoObject"
	// reasonConflict means that another source places the object there, or that an older one selects it.
	reasonConflict = "Conflict"
	// reasonTooMany means that more objects are selected than can be placed. reasonTooLarge means that an object exceeds the size limit of a
	// manifest.
	reasonTooMany  = "TooMany"
	reasonTooLarge = "TooLarge"
	// reasonOverride means that an override can't be applied to the object. reasonUnused means that an override matches nothing that is
	// selected.
	reasonOverride = "OverrideFailed"
	reasonUnused   = "OverrideUnused"
	// reasonDeleting means that the object on the hub, or the source itself, is being deleted.
	reasonDeleting = "Deleting"
	// reasonError means that a write failed.
	reasonError = "Error"
)

const (
	// maxManifestBytes is the maximum size of a manifest, as in WorkContent.
	maxManifestBytes = 1 << 20
	// recheckKinds is how often a kind that can't be read is tried again. recheckLost is how soon a cache that is behind is read again.
	recheckKinds = 30 * time.Second
	recheckLost  = time.Second
	// missingTimeout is how long objects may be missing on the hub before the Propagation is stalled. Tools apply objects in any order.
	missingTimeout = 10 * time.Minute
)

// planned is the next step for one Propagation.
type planned struct {
	placement.Plan

	// places are where objects should be (objects times clusters). clusters are the selected clusters. Objects that can't be read count where
	// they have a row.
	places   map[string]bool
	clusters map[string]bool
	objects  int
	// problems prevent objects from being placed. known is the set of these problems.
	problems []problem
	known    map[problem]bool
	// notes are problems that prevent nothing: Secrets that pod templates need, and overrides that change nothing.
	notes []problem
	// kept are the places that should no longer have the object, but keep their row until its replicas have moved or pods no longer need it.
	// settledIn caches settled, by cluster.
	kept, settledIn map[string]bool
	// parts are the status lines of objects whose replicas are divided, one for each cluster. missingReplicas is how many of these replicas are
	// not available. moves say which replicas move, and what they wait for. emptying are the clusters that lose the object once their replicas
	// have moved.
	parts    []fleetv1alpha1.PropagationPart
	moves    []problem
	emptying map[string]bool

	missingReplicas int
}

// plan computes the next step. It is a pure function of what was observed and the time.
func plan(o *observed, now time.Time) planned {
	p := planned{
		places: map[string]bool{}, clusters: map[string]bool{}, objects: len(o.objects) + o.excess,
		kept: map[string]bool{}, emptying: map[string]bool{},
	}
	if !o.source.GetDeletionTimestamp().IsZero() {
		var problems []placement.Problem
		p.Plan, problems = placement.Withdraw(o.source, o.Fleet, o.leavePolicy(false), o.namespaceTerminating)
		p.problems = fromPlacement(problems)
		return p
	}
	p.AddFinalizer = !placement.Held(o.source)
	p.Withdrawals = placement.Terminating(o.Fleet)
	for _, place := range slices.Sorted(maps.Keys(o.replaced)) {
		if o.TakesRows(row.ClusterOf(place)) {
			p.Withdrawals = append(p.Withdrawals, placement.Withdrawal{Row: o.Rows[place], Policy: o.leavePolicy(false), Deleted: true})
		}
	}
	withdrawing := map[string]bool{}
	for _, w := range p.Withdrawals {
		withdrawing[row.Place(w.Row)] = true
	}
	p.addUnreadable(o)
	p.addDependencyProblems(o)
	p.addUnusedOverrides(o)
	selectedClusters, claims, fleets := o.selectedClusters(), claimsOf(o), o.Objects()
	for _, one := range o.dividedFirst() {
		fleet, known := fleets[one.row]
		if !known {
			fleet = o.Fleet
			fleet.Rows = map[string]*fleetv1alpha1.MemberWork{}
		}
		fleet.Kinds = []schema.GroupKind{one.groupKind()}
		p.planObject(o, one, fleet, selectedClusters, claims, withdrawing)
		delete(fleets, one.row)
	}
	for _, name := range slices.Sorted(maps.Keys(fleets)) {
		p.withdrawLost(o, o.lost[name], fleets[name])
	}
	switch {
	case p.objects == 0 && len(o.unreadable) == 0 && len(o.united) == 0:
		p.addProblem("", "", "", reasonNoObject, "no object is selected: objects are placed as soon as they exist")
	case len(p.clusters) == 0 && p.objects > 0:
		p.addProblem("", "", "", reasonNoCluster, "no member cluster is selected: check spec.clusters, and the labels and taints of MemberClusters")
	}
	waits := slices.ContainsFunc(p.problems, func(why problem) bool { return slices.Contains(missingObjectReasons(), why.Reason) })
	if waits && !stalledBy(o.oldStatus.Conditions, missingObjectReasons()) {
		p.Recheck = timing.Sooner(p.Recheck, missingTimeLeft(o.oldStatus.Conditions, now))
	}
	return p
}

// missingObjectReasons returns the reasons for problems that go away when somebody creates an object on the hub.
func missingObjectReasons() []string { return []string{reasonNoObject, reasonNoDependency} }

// dividedFirst returns the objects, starting with those whose replicas are divided. While these remain in a cluster, the others stay there too.
func (o *observed) dividedFirst() []object {
	if !divides(o.spec) {
		return o.objects
	}
	out := slices.Clone(o.objects)
	slices.SortStableFunc(out, func(a, b object) int {
		return rollout.FalseFirst(!divided(o.spec, a.groupKind()), !divided(o.spec, b.groupKind()))
	})
	return out
}

// addUnreadable adds the problems of kinds that can't be read, and of too many objects.
func (p *planned) addUnreadable(o *observed) {
	for _, one := range o.unreadable {
		p.addOnce(one.why)
		p.Recheck = timing.Sooner(p.Recheck, recheckKinds)
	}
	if o.excess > 0 {
		p.addProblem("", "", "", reasonTooMany, fmt.Sprintf("%d objects are selected, but at most %d can be placed, leaving out the last %d; "+
			"select some of them in another %s", len(o.objects)+o.excess, maxObjects, o.excess, o.kind))
	}
}

// withdrawLost plans for the rows of an object that is not selected in the cache.
func (p *planned) withdrawLost(o *observed, f fate, fleet placement.Fleet) {
	switch {
	case f.wait.Reason != "":
		p.countUndecided(fleet)
		p.Recheck = timing.Sooner(p.Recheck, recheckKinds)
		return
	case f.behind:
		p.countUndecided(fleet)
		p.Recheck = timing.Sooner(p.Recheck, recheckLost)
		return
	case f.unused:
		p.withdrawUnused(o, f, fleet)
		return
	}
	for _, cluster := range slices.Sorted(maps.Keys(fleet.Rows)) {
		if live := fleet.Rows[cluster]; live.DeletionTimestamp.IsZero() && fleet.TakesRows(cluster) {
			p.Withdrawals = append(p.Withdrawals, placement.Withdrawal{Row: live, Policy: o.leavePolicy(f.gone), Deleted: f.gone})
		}
	}
}

// countUndecided counts the places of an object whose fate is unknown. They stay as they are.
func (p *planned) countUndecided(fleet placement.Fleet) {
	p.objects++
	for cluster, live := range fleet.Rows {
		if live.DeletionTimestamp.IsZero() {
			p.places[row.Place(live)], p.clusters[cluster] = true, true
		}
	}
}

// leavePolicy returns what happens to withdrawn objects. An object that is gone from the hub along with its namespace is orphaned, since no user
// deleted it.
func (o *observed) leavePolicy(gone bool) fleetv1alpha1.LeavePolicy {
	if gone && o.namespaceTerminating || o.spec.DeletionPolicy == fleetv1alpha1.LeaveOrphan {
		return fleetv1alpha1.LeaveOrphan
	}
	return fleetv1alpha1.LeaveDelete
}

// planObject plans the rows of one object.
func (p *planned) planObject(
	o *observed, one object, fleet placement.Fleet, selectedClusters []string, claims map[string]*claim, withdrawing map[string]bool,
) {
	m, ready := p.prepareContent(o, one)
	candidates := p.candidates(o, one, fleet, selectedClusters, withdrawing)
	if ready {
		for i := range candidates { // Conflicts matter only where the object would get a row.
			at := &candidates[i]
			at.gets = at.gets && (at.withdrawing || at.live != nil || !p.taken(o, one, at.cluster, claims))
		}
	}
	switch dividing := divided(o.spec, one.groupKind()); {
	case dividing && ready:
		p.divide(o, one, fleet, m, candidates)
		return
	case dividing: // Its rows stay as they are, and so do its replicas.
		p.keepRows(fleet, candidates)
		return
	}
	selected := map[string]bool{}
	for _, at := range candidates {
		selected[at.cluster] = true
		switch {
		case at.withdrawing: // It gets a new row when this one is gone.
		case at.live != nil && !at.keep:
			p.withdraw(o, at.cluster, at.live)
		case !at.gets || !ready:
		default:
			p.want(o, one, m, at.cluster, nil)
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(fleet.Rows)) {
		// No row is withdrawn here from a cluster that is gone or leaving. A missing MemberCluster doesn't prove that the cluster has left, and a
		// cluster that is leaving has its own policy.
		if live := fleet.Rows[cluster]; !selected[cluster] && !withdrawing[row.PlaceOf(cluster, one.row)] && fleet.TakesRows(cluster) {
			p.withdraw(o, cluster, live)
		}
	}
}

// withdraw withdraws a row from a cluster that should no longer have the object. It waits until no replicas have to move away from there,
// since pods may need the object until then.
func (p *planned) withdraw(o *observed, cluster string, live *fleetv1alpha1.MemberWork) {
	if p.emptying[cluster] {
		p.kept[row.Place(live)] = true
		return
	}
	p.Withdrawals = append(p.Withdrawals, placement.Withdrawal{Row: live, Policy: o.leavePolicy(false)})
}

// keepRows keeps the rows of an object whose replicas can't be divided at the moment, even in clusters that should not have it.
func (p *planned) keepRows(fleet placement.Fleet, candidates []candidate) {
	stays := map[string]bool{}
	for _, at := range candidates {
		stays[at.cluster] = at.keep
	}
	for cluster, live := range fleet.Rows {
		if !stays[cluster] {
			p.emptying[cluster], p.kept[row.Place(live)] = true, true
		}
	}
}

// prepareContent returns the content of an object. If it is not ready, the rows have to stay as they are, and a problem says why.
func (p *planned) prepareContent(o *observed, one object) (m content, ready bool) {
	m, err := manifest(one.live)
	not := func(reason, why string) (content, bool) {
		p.addProblem("", one.Kind, one.Name, reason, why)
		return m, false
	}
	switch {
	case err != nil:
		return not(fleetv1alpha1.ReasonInvalid, err.Error())
	case len(m.raw) > maxManifestBytes:
		return not(reasonTooLarge, fmt.Sprintf("its manifest has %d bytes, but the limit is %d: make it smaller", len(m.raw), maxManifestBytes))
	case len(o.spec.Overrides) == 0 && removesItself(m.object) != "": // With overrides, this is checked for each cluster.
		return not(fleetv1alpha1.ReasonInvalid, removesItself(m.object))
	case undividable(o.spec, one.live) != "":
		return not(reasonNotDivided, undividable(o.spec, one.live))
	case !one.live.GetDeletionTimestamp().IsZero():
		return not(reasonDeleting, "it is being deleted: it stays in the clusters until it is gone here")
	}
	return m, true
}

// candidates returns the clusters that are selected for an object, and counts them as places.
func (p *planned) candidates(o *observed, one object, fleet placement.Fleet, selectedClusters []string, withdrawing map[string]bool) []candidate {
	var out []candidate
	for _, cluster := range selectedClusters {
		at := candidate{cluster: cluster, live: fleet.Rows[cluster]}
		if at.live == nil && len(o.spec.Clusters.Names) == 0 && fleet.Taint(cluster) != nil {
			continue // As in Fleet.Matching: a tainted cluster counts only if it is named or has a row.
		}
		p.clusters[cluster] = true
		place := row.PlaceOf(cluster, one.row)
		at.withdrawing = withdrawing[place]
		at.available, at.keep, at.gets = p.decidePlace(o, one, fleet, cluster)
		if at.live == nil || at.available.Reason != placement.ReasonTainted || at.keep { // Evicted objects don't count.
			p.places[place] = true
		}
		out = append(out, at)
	}
	return out
}

// selectedClusters returns the clusters that the spec selects, sorted. It ignores taints.
func (o *observed) selectedClusters() []string {
	return placement.Selected(o.spec.Clusters).Clusters(func(by labels.Selector) []string {
		var names []string
		for name, mc := range o.Clusters {
			if o.TakesRows(name) && by.Matches(labels.Set(mc.Labels)) {
				names = append(names, name)
			}
		}
		return names
	})
}

// decidePlace decides for a selected cluster whether an existing row is kept, and whether the row is written. It adds a problem if the cluster
// doesn't get the object.
func (p *planned) decidePlace(o *observed, one object, fleet placement.Fleet, cluster string) (a placement.Availability, keep, gets bool) {
	namespace := o.source.GetNamespace()
	if namespace == "" {
		namespace = placement.AnyNamespace // A cluster-scoped object concerns all namespaces.
	}
	a = fleet.Availability(cluster, namespace)
	placed := fleet.Rows[cluster] != nil
	_, prepared := fleet.Epoch(cluster)
	writable := prepared && fleet.TakesRows(cluster)
	switch {
	case a.Reason == fleetv1alpha1.ReasonNamespaceNotAllowed && namespace == placement.AnyNamespace:
		p.addProblem(cluster, "", "", a.Reason, fmt.Sprintf("cluster %s only allows objects in its limits.allowedNamespaces, and so no "+
			"cluster-scoped ones: exclude the cluster, or remove that limit", cluster))
		return a, false, false
	case a.Reason == fleetv1alpha1.ReasonNamespaceNotAllowed:
		p.addProblem(cluster, "", "", a.Reason, a.Message)
		return a, false, false
	case placement.NotAllowed(a.Reason):
		p.addProblem(cluster, one.Kind, "", a.Reason, a.Message)
		return a, false, false
	case a.Reason == placement.ReasonTainted:
		why := fmt.Sprintf("cluster %s has taint %s", cluster, fleet.Taint(cluster))
		switch {
		case placed && a.State != allot.Draining:
			return a, true, writable
		case placed && divided(o.spec, one.groupKind()):
			p.addProblem(cluster, "", "", a.Reason, why+": its replicas move to other clusters, and then its objects are withdrawn; tolerate the "+
				"taint to keep them")
		case placed && p.emptying[cluster]: // The divided object, which comes first, has added the problem.
		case placed:
			p.addProblem(cluster, "", "", a.Reason, why+": its objects are withdrawn; tolerate the taint to keep them")
		default:
			p.addProblem(cluster, "", "", a.Reason, why+": it gets no objects; tolerate the taint, or name another cluster")
		}
		return a, false, false
	case a.Reason == fleetv1alpha1.ReasonKindNotServed:
		p.addProblem(cluster, one.Kind, "", a.Reason, a.Message)
		return a, true, placed && writable
	case a.Unusable || a.State != allot.Ready:
		p.addProblem(cluster, "", "", a.Reason, a.Message)
		return a, true, placed && writable
	}
	return a, true, writable
}

// claim is the set of clusters that an older source selects.
type claim struct {
	olderSource
	clusters map[string]bool
}

// claimsOf returns the clusters that older sources claim. A cluster with a taint that the source doesn't tolerate is not claimed.
func claimsOf(o *observed) map[string]*claim {
	out := map[string]*claim{}
	for _, e := range o.olderSources {
		other := &observed{Fleet: placement.Fleet{Clusters: o.Clusters, Tolerations: e.spec.Tolerations, Now: o.Now}, spec: e.spec}
		c := &claim{olderSource: e, clusters: map[string]bool{}}
		for _, cluster := range other.selectedClusters() {
			c.clusters[cluster] = other.Taint(cluster) == nil
		}
		out[e.name] = c
	}
	return out
}

// taken reports whether a place without a row of ours belongs to another source. If so, it adds a problem, except for a dependency.
func (p *planned) taken(o *observed, one object, cluster string, claims map[string]*claim) bool {
	place := row.PlaceOf(cluster, one.row)
	if who := o.heldBy[place]; who != "" {
		if strings.HasPrefix(who, sourceKind+" ") && p.leftToOther(one, place) {
			return true
		}
		p.addProblem(cluster, one.Kind, one.Name, reasonConflict, who+" already places it there: let only one of them place it")
		return true
	}
	for _, e := range o.olderSources {
		if claims[e.name].clusters[cluster] && selects(e.spec, one.groupKind(), one.Name, one.live.GetLabels()) {
			if p.leftToOther(one, place) {
				return true
			}
			p.addProblem(cluster, one.Kind, one.Name, reasonConflict,
				fmt.Sprintf("%s %s is older and selects it too: let only one of them select it", o.kind, e.name))
			return true
		}
	}
	return false
}

func (p *planned) addProblem(cluster, kind, name, reason, message string) {
	p.addOnce(problem{Cluster: cluster, Kind: kind, Name: name, Reason: reason, Message: message})
}

// addOnce adds a problem unless it is known. The same problem of a cluster comes up for each object.
func (p *planned) addOnce(why problem) {
	if p.known == nil {
		p.known = map[problem]bool{}
	}
	if !p.known[why] {
		p.known[why] = true
		p.problems = append(p.problems, why)
	}
}

// fromPlacement converts the problems of clusters.
func fromPlacement(all []placement.Problem) []problem {
	out := make([]problem, 0, len(all))
	for _, one := range all {
		if next := (problem{Cluster: one.Cluster, Reason: one.Reason, Message: one.Message}); !slices.Contains(out, next) {
			out = append(out, next)
		}
	}
	return out
}

// want adds the row of an object in a cluster to the plan. If there can't be one, it adds a problem, and the row stays as it is.
func (p *planned) want(o *observed, one object, m content, cluster string, grant *fleetv1alpha1.SubsetGrant) {
	want, err := m.want(o, one, cluster, grant)
	switch selfRemoving := selfRemovingError(""); {
	case errors.As(err, &selfRemoving):
		p.addProblem(cluster, one.Kind, one.Name, fleetv1alpha1.ReasonInvalid, err.Error())
	case err != nil:
		p.addProblem(cluster, one.Kind, one.Name, reasonOverride, err.Error())
	default:
		p.Wants = append(p.Wants, want)
	}
}

// want returns the row of an object in a cluster, with the cluster's grant if replicas are divided.
func (m content) want(o *observed, one object, cluster string, grant *fleetv1alpha1.SubsetGrant) (row.Want, error) {
	raw, patch, err := m.renderFor(o, cluster, grant)
	if err != nil {
		return row.Want{}, err
	}
	source := o.source
	w := row.Want{
		Cluster: cluster,
		Source: fleetv1alpha1.WorkSource{
			APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: o.kind, Namespace: source.GetNamespace(), Name: source.GetName(),
			UID: string(source.GetUID()),
		},
		Object: &one.WorkObject, Manifest: raw, Patch: patch, Apply: o.spec.Apply, DeletionPolicy: o.leavePolicy(false),
	}
	w.Grant.Epoch, _ = o.Epoch(cluster)
	if grant != nil {
		w.Grant.Replicas, w.Grant.Subsets = grant.Replicas, []fleetv1alpha1.SubsetGrant{*grant}
	}
	w.Suspend = o.suspended(cluster)
	return w, nil
}
