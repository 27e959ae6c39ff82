package workloadspread

import (
	"fmt"
	"maps"
	"slices"
	"time"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// planned is the next step for one workload and its WorkloadSpread. It is planned in two stages: first the slices, then the copies, which
// depend on the slices that members have applied.
type planned struct {
	// slices plans the rows of the WorkloadSpread, and copies the rows of the workload.
	slices, copies placement.Plan
	// inactive says why nothing is divided, and the division is empty. It is nil if the workload is divided.
	inactive *placement.Problem
	division
	// moves has a sentence for each move, which says what the move waits for.
	moves []string
	// younger withdraws the rows of the younger WorkloadSpreads: in a member, their slices might count instead of ours.
	younger []planned
}

// Reasons of the condition Active.
const (
	reasonPlacing          = "Placing"
	reasonTargetGone       = "TargetGone"
	reasonTargetNoTemplate = "TargetNotTemplate"
	reasonTargetRunsHere   = "TargetRunsHere"
	reasonTargetTaken      = "TargetTaken"
	reasonDeleting         = "Deleting"
)

// plan divides the workload and plans the slices.
func plan(o *observed, now time.Time) planned {
	var p planned
	var problems []placement.Problem
	if o.target != nil && o.target.GetDeletionTimestamp() != nil {
		p.copies, problems = placement.Withdraw(o.target, o.copies, fleetv1alpha1.LeaveDelete, o.namespaceTerminating)
	}
	for _, y := range o.younger {
		var plan planned
		plan.slices, plan.problems = placement.Withdraw(y.ws, y.slices, fleetv1alpha1.LeaveDelete, o.namespaceTerminating)
		p.younger = append(p.younger, plan)
	}
	switch {
	case o.ws == nil:
		return p
	case o.ws.DeletionTimestamp != nil:
		p.slices, p.problems = placement.Withdraw(o.ws, o.slices, fleetv1alpha1.LeaveDelete, o.namespaceTerminating)
		return p
	}
	p.inactive, p.problems = inactive(o), problems
	if p.inactive != nil {
		return p
	}
	p.division = divide(o, now)
	p.slices.AddFinalizer = !placement.Held(o.ws)
	p.renderSlices(o)
	return p
}

// inactive returns why nothing is divided, or nil. What exists stays as it is.
func inactive(o *observed) *placement.Problem {
	ref := scaletarget.SpreadTarget(o.ws)
	because := func(reason, format string, args ...any) *placement.Problem {
		return &placement.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !scaletarget.Federated(o.ws) && len(o.slices.Rows) > 0:
		return because(reasonNoCluster, "no subset names a cluster anymore, but member clusters (%d) still run %s: name them again", len(o.slices.Rows), ref)
	case !scaletarget.Federated(o.ws):
		return because(reasonNoCluster, "no subset names a cluster, and this cluster runs no member stack: give each subset cluster or clusterSelector")
	case o.unmarked:
		return because(reasonTargetNoTemplate, "%s lacks label %s, so this cluster may run it: delete it and create it again with the label set to true",
			ref, keys.FleetTemplate)
	case o.target == nil:
		return because(reasonTargetGone, "%s does not exist", ref)
	case o.target.GetDeletionTimestamp() != nil:
		return because(reasonTargetGone, "%s is being deleted", ref)
	}
	if why := o.kind.runs(o.target); why != "" && len(o.copies.Rows) == 0 {
		return because(reasonTargetRunsHere, "%s: %s", ref, why)
	}
	return nil
}

// place plans the copies, which depend on the slices that clusters have applied.
func (p *planned) place(o *observed, written placement.Summary) {
	p.copies.Frozen = slices.Collect(maps.Keys(written.Stale))
	if o.ws == nil || o.ws.DeletionTimestamp != nil || p.inactive != nil {
		return // The copies run on as they are, or are withdrawn with the workload.
	}
	p.copies.AddFinalizer = !placement.Held(o.target)
	p.moves = p.transfer(written.Applied)
	partition, divided := o.kind.partition(o.target, p.total)
	if divided {
		p.partitions(partition)
	}
	p.renderCopies(o, divided)
}
