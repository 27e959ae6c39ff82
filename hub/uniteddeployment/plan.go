package uniteddeployment

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// planned is the next step for one UnitedDeployment.
type planned struct {
	placement.Plan
	// revision makes the update revision the newest of the history. It is zero if no row is written.
	revision revision.Step
	// surplus are the revisions to delete.
	surplus []*appsv1.ControllerRevision
	// runsHere is true if a member stack in this cluster runs the object, so that the numbers in its status don't come from the hub.
	runsHere bool
	// parts are all subsets in all clusters, with the next grants of the rows.
	parts []part
	// allocation says where the replicas should run.
	allocation allot.Allocation
	// rollout is the rollout over the clusters; nil for another type of update.
	rollout *rollingOut
	// moves has a sentence for each move, which says what the move waits for.
	moves []string
	// problems say what is not as desired.
	problems []placement.Problem
}

func plan(o *observed) planned {
	switch {
	case !o.ud.DeletionTimestamp.IsZero():
		p := planned{parts: heldParts(o)}
		p.Plan, p.problems = placement.Withdraw(o.ud, o.Fleet, fleetv1alpha1.LeaveDelete, o.namespaceTerminating)
		return p
	case !united.Federated(o.ud):
		return planWithoutClusters(o)
	case !placement.Held(o.ud) && len(o.Rows) == 0 && slices.ContainsFunc(o.ud.Status.SubsetStatuses, local):
		return planRunsHere()
	}
	p := planned{}
	p.AddFinalizer = !placement.Held(o.ud)
	p.parts, p.problems = divide(o)
	for _, part := range p.parts {
		if part.state == allot.Frozen {
			p.Frozen = append(p.Frozen, part.Cluster)
		}
	}
	assignOrdinals(o, p.parts)
	p.allocation = allocate(o.ud, p.parts)
	if p.allocation.Unallocated > 0 {
		p.problems = append(p.problems, tainted(p.parts)...)
	}
	wanted, err := revisionOf(o.ud)
	if err != nil {
		p.problems = append(p.problems, placement.Problem{Reason: fleetv1alpha1.ReasonInvalid, Message: err.Error()})
		return p
	}
	p.revision = revision.Next(o.history, wanted)
	targets := targetsOf(p.parts, p.allocation)
	partitions := partitionsOf(o.ud, p.parts, targets)
	limits := placement.Limits(o.ud.Spec.Topology.Placement, replicas(o.ud), barred(p.allocation, p.parts))
	var rollout *rollingOut
	if united.Waves(o.ud) {
		rollout = p.startRollout(o)
		limits = rollout.limitMoves(limits)
	}
	steps := allot.Transfer(limits, holdings(p.parts, targets))
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
	if rollout != nil {
		rollout.plan(&p, limits, steps)
	}
	p.render(o)
	p.surplus = p.findSurplus(o)
	return p
}

// planWithoutClusters plans for an object whose subsets name no cluster. If this cluster has a member stack, that runs the object, but only
// without our finalizer. An object that named clusters before keeps its rows until the user names some again: removing all names is more
// likely a mistake than the intention to delete everything.
func planWithoutClusters(o *observed) planned {
	if o.localMember && len(o.Rows) == 0 {
		return planned{Plan: placement.Plan{Idle: !placement.Held(o.ud), RemoveFinalizer: placement.Held(o.ud)}}
	}
	message := "no subset names a cluster, and this cluster runs no member stack: give each subset cluster or clusterSelector"
	if len(o.Rows) > 0 {
		message = fmt.Sprintf("no subset names a cluster anymore, but member clusters (%d) still run this object: name them again, or delete the object", len(o.Rows))
	}
	return planned{parts: heldParts(o), problems: []placement.Problem{{Reason: reasonNoCluster, Message: message}}}
}

// local reports whether a member stack has written the status of a subset. The hub always sets the cluster in it.
func local(s appsv1beta1.SubsetStatus) bool { return s.Cluster == "" }

// planRunsHere plans for an object that a member stack in this cluster has reported on. If it were placed in clusters too, it would run
// twice, and no controller would own what runs here.
func planRunsHere() planned {
	return planned{runsHere: true, problems: []placement.Problem{{
		Reason: reasonRunsHere,
		Message: "this cluster itself runs the object, so it is not also placed in member clusters: remove the clusters from its subsets, " +
			"or delete the object and create it again",
	}}}
}
