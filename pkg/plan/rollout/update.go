package rollout

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// update brings pods to the other revision, as far as the partition and the budget allow.
func (d *decider) update() {
	maxInFlight := d.goal.MaxUnavailable + len(withoutStep(d.active)) - d.goal.Replicas
	t := d.podsToUpdate(withoutStep(d.old), withoutStep(d.updated))
	if d.goal.Paused {
		if t.n > 0 {
			d.hold(ReasonPaused, t.n, "paused: %d %s pod(s) waiting", t.n, t.revision())
		}
		return
	}
	if d.goal.Foreign {
		d.updateForeign(t)
		return
	}
	inFlight := d.continueRecreates(t)
	if d.slots != nil {
		maxInFlight = math.MaxInt // missing pods already count against the budget
		d.surgeInSlots(t)
	}
	n := max(t.n-inFlight, 0)
	for _, p := range t.to {
		if !p.Available {
			inFlight++
		}
	}
	refused, refusal := 0, ""
	held := 0
	d.Steps = slices.Grow(d.Steps, max(min(n, maxInFlight, d.available-d.minAvailable), 0))
	for _, p := range t.from {
		if n == 0 {
			break
		}
		by := d.method(p)
		switch {
		case p.surged:
			n--
			continue
		case p.PreparingDelete:
			// It already has a step, or its deletion has to be cancelled before it can be updated in place.
			continue
		case by == methodNone:
			refused, refusal = refused+1, p.NotInPlace
			continue
		case p.outOfService(), d.nonDisruptive(p), d.slots != nil && d.withinBudget(p):
			// It is already out of service, or the update leaves it in service, or enough others are available.
		case d.slots != nil:
			// A later pod may already be unavailable: with slots, unavailable pods don't come first in the order.
			held++
			n--
			continue
		case inFlight >= maxInFlight && maxInFlight > 0:
			d.hold(ReasonInFlight, n, "%d %s pod(s) waiting: %d updated pod(s) not available yet, at most %d at a time",
				n, t.revision(), inFlight, maxInFlight)
			return
		case maxInFlight <= 0 || !d.withinBudget(p):
			d.holdBudget(n, t.revision()+" pod(s) waiting")
			return
		}
		if !d.nonDisruptive(p) || p.outOfService() {
			inFlight++
		}
		d.planUpdate(p, by, t)
		n--
	}
	if held > 0 {
		d.holdBudget(held, t.revision()+" pod(s) waiting")
	}
	if n > 0 && refused > 0 {
		d.hold(ReasonNotInPlace, refused, "%d %s pod(s) can't be updated in place: %s", refused, t.revision(), refusal)
	}
}

// updateForeign is update for pods that other objects own. Pods that are out of service come first, whatever the order, so that no serving pod
// is taken out of service in addition to them.
func (d *decider) updateForeign(t updateSet) {
	var serving []*podState
	inFlight, refused, refusal := 0, 0, ""
	for _, p := range t.to {
		if !p.Available {
			inFlight++
		}
	}
	n := t.n
	for _, p := range t.from {
		switch by := d.method(p); {
		case n > 0 && by == methodNone:
			refused, refusal = refused+1, p.NotInPlace
		case n > 0 && p.Available:
			n--
			serving = append(serving, p)
			continue
		case n > 0:
			n--
			inFlight++
			d.planUpdate(p, by, t)
			continue
		}
		if p.outOfService() { // Its update has begun and continues, so it counts against this update.
			inFlight++
		}
	}
	for i, p := range serving {
		switch wait := len(serving) - i; {
		case d.goal.MaxUnavailable <= 0:
			d.hold(ReasonBudget, wait, "%d old pod(s) waiting: none may become unavailable", wait)
			return
		case inFlight >= d.goal.MaxUnavailable:
			d.hold(ReasonInFlight, wait,
				"%d old pod(s) waiting: %d updated pod(s) not available yet, at most %d at a time",
				wait, inFlight, d.goal.MaxUnavailable)
			return
		}
		d.planUpdate(p, d.method(p), t)
		inFlight++
	}
	if n > 0 && refused > 0 {
		d.hold(ReasonNotInPlace, refused, "%d old pod(s) can't be updated in place: %s", refused, refusal)
	}
}

// continueRecreates continues with pods that are preparing delete because they are re-created, and returns how many. They stay chosen unless the
// partition has grown.
func (d *decider) continueRecreates(t updateSet) int {
	n := 0
	for _, p := range t.from {
		if p.PreparingDelete && d.method(p) == methodRecreate && n < t.allowed {
			d.planUpdate(p, methodRecreate, t)
			n++
		}
	}
	return n
}

// revision names the revision of the pods that should change, for messages.
func (t updateSet) revision() string {
	if t.rollback {
		return "new"
	}
	return "old"
}

// withoutStep returns the pods that have no step yet.
func withoutStep(pods []*podState) []*podState {
	return slices.DeleteFunc(slices.Clone(pods), func(p *podState) bool { return p.hasStep })
}

// planUpdate plans the next step that brings a pod to the other revision.
func (d *decider) planUpdate(p *podState, by updateMethod, t updateSet) {
	s := Step{Key: p.Key, Old: t.rollback, Reason: ReasonInPlace, Why: t.revision() + " revision; "}
	switch {
	case p.PreparingDelete:
		s.Why += "already prepared for deletion, so free"
	case p.outOfService():
		s.Why += "already out of service for an update, so free"
	case d.nonDisruptive(p):
		s.Why += "nothing restarts, so free"
	case p.Available && d.goal.Foreign:
		s.Why += fmt.Sprintf("fewer than %d updated pod(s) unavailable", d.goal.MaxUnavailable)
	case p.Available:
		s.Why += fmt.Sprintf("%d available > %d minimum", d.available, d.minAvailable)
	case p.serves:
		s.Why += fmt.Sprintf("not available, and %d serving > %d minimum", d.serving, d.minAvailable)
	default:
		s.Why += "not available, so free"
	}
	if by == methodRecreate {
		s.Reason = ReasonRecreate
		if p.NotInPlace != "" && d.goal.Mode == InPlaceIfPossible {
			s.Why += "; not in place: " + p.NotInPlace
		}
		d.planDelete(p, s)
		return
	}
	if d.nonDisruptive(p) {
		p.hasStep = true
	} else {
		d.takeOutOfService(p)
	}
	switch {
	case p.UpdateHooked && p.Update < UpdatePreparing:
		s.Why += "; its lifecycle hook comes first"
		s.Kind = StepPrepareUpdate
	case p.UpdateHooked && p.Update == UpdatePreparing:
		d.awaitingHook++
		return
	case p.Update == UpdateDraining:
		d.draining++
		return
	case p.Gated && !p.NoRestart && p.Update <= UpdatePreparing:
		s.Kind = StepMarkUnready
	default:
		s.Kind = StepUpdateInPlace
	}
	d.addStep(s)
}

// completeOrRevert plans steps for the pods without one: an update that has begun is completed, and a preparation that is no longer needed is
// reverted.
func (d *decider) completeOrRevert() {
	from := len(d.Steps)
	for _, p := range d.active {
		if p.hasStep {
			continue
		}
		s := Step{Kind: StepMarkReady, Key: p.Key, Reason: ReasonRestored}
		switch {
		case p.PreparingDelete:
			s.Kind, s.Why = StepCancelDelete, "prepared for a deletion that is no longer wanted"
		case p.Update == UpdateAwaitingHook:
			d.awaitingHook++
			continue
		case p.Update == UpdateHeld:
			s.Reason, s.Why = ReasonStarted, "nothing holds the pod back"
		case p.Update == UpdatePreparing:
			s.Why = "prepared for an update that is no longer wanted"
		case p.Update == UpdateNotReady, p.Update == UpdateDraining:
			s.Why = "marked for an update that is no longer wanted"
		case p.Update == UpdateNextBatch:
			s.Kind, s.Reason, s.Why = StepUpdateInPlace, ReasonNextBatch, "the containers updated before are ready"
		case p.Update == UpdateCompleted:
			s.Reason, s.Why = ReasonUpdated, "the update is complete"
		default: // UpdateNone, UpdateInProgress
			continue
		}
		d.addStep(s)
	}
	slices.SortFunc(d.Steps[from:], func(a, b Step) int { return strings.Compare(a.Key, b.Key) })
	if d.awaitingHook > 0 {
		d.hold(ReasonHook, d.awaitingHook, "%d pod(s) waiting for their lifecycle hooks", d.awaitingHook)
	}
	if d.draining > 0 {
		d.hold(ReasonDraining, d.draining, "%d pod(s) waiting for their traffic to end", d.draining)
	}
}
