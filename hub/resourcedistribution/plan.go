package resourcedistribution

import (
	"fmt"
	"maps"
	"slices"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// Reasons of conditions and of clusters in the status.
const (
	// reasonSucceeded means that there is no such failure.
	reasonSucceeded = "Succeeded"
	// reasonNoCluster means that no cluster is selected, or that the object is not meant for a hub.
	reasonNoCluster = "NoCluster"
	// reasonWithdrawing means that the cluster's row is being withdrawn.
	reasonWithdrawing = "Withdrawing"
	// reasonDeleting means that the object is being deleted.
	reasonDeleting = "Deleting"
	// reasonError means that a write failed.
	reasonError = "Error"
)

// planned is the next step for one ResourceDistribution.
type planned struct {
	placement.Plan

	// selected are the clusters that the object selects, sorted.
	selected []string
	// problems say why clusters don't get their slice, or don't answer.
	problems []placement.Problem
}

// plan is a pure function of what was observed.
func plan(o *observed) planned {
	switch {
	case !o.rd.DeletionTimestamp.IsZero():
		var p planned
		p.Plan, p.problems = placement.Withdraw(o.rd, o.Fleet, fleetv1alpha1.LeaveDelete, false)
		return p
	case o.rd.Spec.Targets.Clusters == nil:
		return planWithoutClusters(o)
	}
	p := planned{selected: selected(o)}
	p.AddFinalizer = !placement.Held(o.rd)
	p.Withdrawals = placement.Terminating(o.Fleet)
	leaving := map[string]bool{}
	for _, w := range p.Withdrawals {
		leaving[w.Row.Labels[keys.FleetCluster]] = true
	}
	common, err := manifest(o.rd, o.closed)
	if err != nil {
		p.addProblem("", fleetv1alpha1.ReasonInvalid, err.Error())
		return p
	}
	for _, cluster := range p.selected {
		keep, gets := p.decidePlace(o, cluster)
		switch live := o.Rows[cluster]; {
		case leaving[cluster]: // It gets a new row when this one is gone.
		case live != nil && !keep:
			p.withdraw(live)
		case gets:
			p.Wants = append(p.Wants, wantFor(o, cluster, common))
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(o.Rows)) {
		// Nothing is withdrawn here from a cluster that is gone or leaving. A cluster that is gone proves nothing, and one that is leaving has a
		// policy of its own.
		if _, found := slices.BinarySearch(p.selected, cluster); !found && !leaving[cluster] && o.TakesRows(cluster) {
			p.withdraw(o.Rows[cluster])
		}
	}
	if len(p.selected) == 0 {
		p.addProblem("", reasonNoCluster, "no member cluster is selected")
	}
	return p
}

// planWithoutClusters plans for an object without targets.clusters. If this cluster has a member stack, that distributes the object. The
// apiserver doesn't allow removing the clusters. If somebody got around that, the rows would stay until the object is deleted.
func planWithoutClusters(o *observed) planned {
	if o.localMember && len(o.Rows) == 0 {
		return planned{Plan: placement.Plan{Idle: !placement.Held(o.rd), RemoveFinalizer: placement.Held(o.rd)}}
	}
	var p planned
	p.addProblem("", reasonNoCluster,
		"targets.clusters is not set, and this cluster runs no member stack: create another ResourceDistribution with targets.clusters")
	return p
}

func (p *planned) addProblem(cluster, reason, message string) {
	p.problems = append(p.problems, placement.Problem{Cluster: cluster, Reason: reason, Message: message})
}

func (p *planned) withdraw(row *fleetv1alpha1.MemberWork) {
	p.Withdrawals = append(p.Withdrawals, placement.Withdrawal{Row: row, Policy: fleetv1alpha1.LeaveDelete})
}

// selected returns the clusters that an object selects, sorted.
func selected(o *observed) []string {
	return placement.Selected(*o.rd.Spec.Targets.Clusters).Clusters(o.Matching)
}

// decidePlace decides for a selected cluster whether an existing row is kept, and whether the row is written. It adds a problem if the cluster
// doesn't get the slice.
func (p *planned) decidePlace(o *observed, cluster string) (keep, gets bool) {
	a, placed := o.Availability(cluster, namespaces(o.rd)...), o.Rows[cluster] != nil
	_, prepared := o.Epoch(cluster)
	may := prepared && o.TakesRows(cluster)
	switch {
	case placement.NotAllowed(a.Reason):
		p.addProblem(cluster, a.Reason, a.Message)
		return false, false
	case a.Reason == placement.ReasonTainted:
		return p.decideTainted(o, cluster, placed), placed && may
	case a.Unusable || a.State != allot.Ready:
		p.addProblem(cluster, a.Reason, a.Message)
		return true, placed && may
	}
	return true, may
}

// decideTainted decides whether a cluster with a taint keeps its row. Copies are not evicted one by one as replacements become available.
// They stay for as long as pods placed by the hub may need them.
func (p *planned) decideTainted(o *observed, cluster string, placed bool) (keep bool) {
	taint := o.Taint(cluster)
	why, evicts := fmt.Sprintf("cluster %s has taint %s", cluster, taint), taint.Effect == fleetv1alpha1.Evict
	switch {
	case placed && !evicts:
		return true
	case placed && o.occupied[cluster]:
		p.addProblem(cluster, placement.ReasonTainted, why+": the copies are withdrawn once no pods of the hub are left there")
		return true
	case placed:
		p.addProblem(cluster, placement.ReasonTainted, why+": the copies are withdrawn")
	default:
		p.addProblem(cluster, placement.ReasonTainted, why+": it gets no copies until the taint is removed")
	}
	return false
}
