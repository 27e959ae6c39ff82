package rollout

import (
	"fmt"
	"slices"
	"time"
)

// Next returns the next steps towards the goal, with their reasons. It doesn't change pods, and it is deterministic. A caller may apply any
// subset of the steps, in any order, and must observe the result before it calls Next again.
func Next(g Goal, pods []Pod, now time.Time) Decision {
	d := observe(g, pods)
	kept, wanted := d.surge()
	d.deleteNamed()
	d.scaleIn(kept)
	d.update()
	d.create(wanted)
	d.completeOrRevert()
	d.Recheck = recheck(pods, now)
	return d.Decision
}

// decider is the state of one call of Next: the pods that count, their numbers, and what the budget still allows.
type decider struct {
	Decision

	goal Goal
	// surgeCreates are the creates of a second pod in a slot.
	surgeCreates []Step

	// active are the pods that count; each is in exactly one of toDelete, old and updated.
	active, old, updated, toDelete []*podState
	// ended are the pods that have ended and have to be deleted.
	ended []*podState

	// minAvailable is how many pods have to stay available: Replicas - MaxUnavailable.
	minAvailable int
	// available, serving and ready count the pods that still are so after the steps planned so far.
	available, serving, ready int
	// surplus is how many pods a scale-in leaves above Replicas + MaxSurge, after the steps planned so far.
	surplus int
	// anyInactive: at least one pod is terminating, or has ended and has to be deleted.
	anyInactive bool
	// slots are the slots by key; nil if pods have no slots. surging is how many of them hold a second pod as a surge, extra is how many second
	// pods are being deleted.
	slots          map[string]*slotState
	surging, extra int

	// awaitingHook is how many pods wait for a lifecycle hook, draining is how many wait for their grace period.
	awaitingHook, draining int
}

func observe(g Goal, pods []Pod) *decider {
	g.Replicas = max(g.Replicas, len(g.Slots))
	g.Partition = min(max(g.Partition, 0), g.Replicas)
	if g.Mode == OnDelete {
		g.Partition = 0
	}
	d := &decider{goal: g, minAvailable: max(g.Replicas-g.MaxUnavailable, 0), surplus: -g.Replicas - g.MaxSurge}
	states := make([]podState, len(pods))
	for i := range pods {
		p := &states[i]
		p.Pod = &pods[i]
		if p.Inactive {
			switch {
			case d.keepsSlot(p):
			case p.Ended:
				d.ended = append(d.ended, p)
				d.anyInactive = true
			default:
				d.anyInactive = true
			}
			continue
		}
		d.active = append(d.active, p)
		switch {
		case p.ToDelete:
			d.toDelete = append(d.toDelete, p)
		case p.Old:
			d.old = append(d.old, p)
		default:
			d.updated = append(d.updated, p)
		}
		if p.Available {
			d.available++
		}
		if p.inService() {
			d.ready++
		}
		if !p.PreparingDelete {
			d.surplus++
		}
	}
	d.findServing()
	if g.Slots != nil {
		d.assignSlots(states)
	}
	return d
}

// findServing finds the pods that serve.
func (d *decider) findServing() {
	back := d.slots == nil && d.goal.Rollback && len(d.old) < d.goal.Partition && len(d.updated) > d.goal.Replicas-d.goal.Partition
	for _, p := range d.active {
		if p.serves = p.Available || p.inService() && p.Old != back; p.serves {
			d.serving++
		}
	}
}

// updateSet holds the pods that should change their revision now.
type updateSet struct {
	// from are the pods at the wrong revision, in update order; to are the pods at the right one.
	from, to []*podState
	// n of them should change; allowed of them may, without going below the partition.
	n, allowed int
	// rollback: the pods go back to the old revision.
	rollback bool
}

// podsToUpdate returns the old pods to update: at most the number above the partition, and at most the number of updated pods that are missing.
// With Rollback, it returns the updated pods to roll back, by the same rule.
func (d *decider) podsToUpdate(old, updated []*podState) updateSet {
	var t updateSet
	above := len(old) - d.goal.Partition
	missing := d.goal.Replicas - d.goal.Partition - len(updated)
	switch {
	case d.goal.Mode == OnDelete:
	case d.slots != nil:
		t = d.podsToUpdateInSlots(old, updated)
	case d.goal.Rollback && above < 0 && missing < 0:
		t = updateSet{from: updated, to: old, n: min(-above, -missing), allowed: -missing, rollback: true}
	default:
		t = updateSet{from: old, to: updated, n: max(min(above, missing), 0), allowed: max(above, 0)}
	}
	if t.allowed > 0 { // Without an update the order isn't needed.
		slices.SortFunc(t.from, updateOrder)
	}
	return t
}

type updateMethod int

const (
	methodNone updateMethod = iota
	methodInPlace
	methodRecreate
)

// method returns how the pod is brought to the other revision.
func (d *decider) method(p *podState) updateMethod {
	switch {
	case d.goal.Mode == OnDelete:
		return methodNone
	case d.goal.Mode == ReCreate:
		return methodRecreate
	case p.NotInPlace == "":
		return methodInPlace
	case d.goal.Mode == InPlaceIfPossible:
		return methodRecreate
	default:
		return methodNone
	}
}

// nonDisruptive reports whether an update leaves the pod in service.
func (d *decider) nonDisruptive(p *podState) bool {
	return d.method(p) == methodInPlace && p.NoRestart && !p.UpdateHooked
}

// takeOutOfService records that the pod has a step that takes it out of service.
func (d *decider) takeOutOfService(p *podState) {
	if d.countsAsAvailable(p) {
		d.available--
	}
	if d.countsAsServing(p) {
		d.serving--
	}
	p.hasStep = true
	if p.inService() {
		d.ready--
	}
}

// withinBudget reports whether the pod may be taken out of service because enough other pods are available, or, for a pod that only serves,
// because enough others serve.
func (d *decider) withinBudget(p *podState) bool {
	switch {
	case d.countsAsAvailable(p):
		return d.available > d.minAvailable
	case d.countsAsServing(p):
		return d.serving > d.minAvailable
	default:
		return true
	}
}

func (d *decider) holdBudget(n int, who string) {
	d.hold(ReasonBudget, n, "%d %s: %d available, at least %d must remain", n, who, d.available, d.minAvailable)
}

func (d *decider) addStep(s Step) { d.Steps = append(d.Steps, s) }

func (d *decider) hold(r Reason, n int, format string, args ...any) {
	d.Holds = append(d.Holds, Hold{Reason: r, Pods: n, Why: fmt.Sprintf(format, args...)})
}

// recheck returns the time until a pod changes just by time passing; 0 if none does.
func recheck(pods []Pod, now time.Time) time.Duration {
	var d time.Duration
	for i := range pods {
		if p := &pods[i]; !p.Inactive && p.ChangesAt.After(now) {
			if in := p.ChangesAt.Sub(now); d == 0 || in < d {
				d = in
			}
		}
	}
	return d
}
