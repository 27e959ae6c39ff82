package rollout

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// update brings pods to the other revision, as far as partition, budget and pace allow.
func (w *world) update() {
	pace := w.goal.MaxUnavailable + len(without(w.active)) - w.goal.Replicas
	t := w.turn(without(w.old), without(w.young))
	if w.goal.Paused {
		if t.n > 0 {
			w.hold(ReasonPaused, t.n, "paused: %d %s pods wait", t.n, t.age())
		}
		return
	}
	inFlight := w.goOn(t)
	if w.places != nil {
		pace = math.MaxInt // what is missing counts against the budget already
		w.surgeInPlaces(t)
	}
	n := max(t.n-inFlight, 0)
	for _, m := range t.to {
		if !m.Available {
			inFlight++
		}
	}
	refused, refusal := 0, ""
	held := 0
	w.Steps = slices.Grow(w.Steps, max(min(n, pace, w.available-w.floor), 0))
	for _, m := range t.from {
		if n == 0 {
			break
		}
		by := w.way(m)
		switch {
		case m.surged:
			n--
			continue
		case m.PreparingDelete:
			// It has its step, or has to come back before it can be edited.
			continue
		case by == wayNone:
			refused, refusal = refused+1, m.NotInPlace
			continue
		case m.taken(), w.quiet(m), w.places != nil && !w.covers(m):
			// It is out of service already, or stays in it.
		case w.places != nil && w.available <= w.floor:
			// Who comes after it may be free: where places have an order of their own, what does not serve is not first.
			held++
			n--
			continue
		case inFlight >= pace && pace > 0:
			w.hold(ReasonInFlight, n, "%d %s pods wait: %d updated pods not available >= %d at a time", n, t.age(), inFlight, pace)
			return
		case pace <= 0 || m.Available && w.available <= w.floor:
			w.holdBudget(n, t.age()+" pods wait")
			return
		}
		if !w.quiet(m) || m.taken() {
			inFlight++
		}
		w.change(m, by, t)
		n--
	}
	if held > 0 {
		w.holdBudget(held, t.age()+" pods wait")
	}
	if n > 0 && refused > 0 {
		w.hold(ReasonNotInPlace, refused, "%d %s pods can't be updated in place: %s", refused, t.age(), refusal)
	}
}

// goOn deletes pods that were prepared for it so that others take their place, and returns how many: the choice stays,
// unless the partition wants them back.
func (w *world) goOn(t turn) int {
	n := 0
	for _, m := range t.from {
		if m.PreparingDelete && w.way(m) == wayRecreate && n < t.above {
			w.change(m, wayRecreate, t)
			n++
		}
	}
	return n
}

// age is what the pods are that shall change.
func (t turn) age() string {
	if t.back {
		return "new"
	}
	return "old"
}

// without leaves out the pods that have their step.
func without(pods []*member) []*member {
	return slices.DeleteFunc(slices.Clone(pods), func(m *member) bool { return m.stepped })
}

// change plans the next step that brings one pod to the other revision.
func (w *world) change(m *member, by way, t turn) {
	s := Step{Key: m.Key, Old: t.back, Reason: ReasonInPlace, Why: t.age() + " revision; "}
	switch {
	case m.PreparingDelete:
		s.Why += "prepared for its deletion already, so free"
	case m.taken():
		s.Why += "out of service for an update already, so free"
	case w.quiet(m):
		s.Why += "nothing restarts, so free"
	case m.Available:
		s.Why += fmt.Sprintf("%d available > %d minimum", w.available, w.floor)
	default:
		s.Why += "not available, so free"
	}
	if by == wayRecreate {
		s.Reason = ReasonRecreate
		if m.NotInPlace != "" && w.goal.Mode == InPlaceIfPossible {
			s.Why += "; not in place: " + m.NotInPlace
		}
		w.remove(m, s)
		return
	}
	if w.quiet(m) {
		m.stepped = true
	} else {
		w.take(m)
	}
	switch {
	case m.UpdateHooked && m.Update < UpdatePreparing:
		s.Why += "; its lifecycle hook comes first"
		s.Kind = StepPrepareUpdate
	case m.UpdateHooked && m.Update == UpdatePreparing:
		w.hooked++
		return
	case m.Update == UpdateDraining:
		w.draining++
		return
	case m.Gated && !m.NoRestart && m.Update <= UpdatePreparing:
		s.Kind = StepMarkUnready
	default:
		s.Kind = StepUpdateInPlace
	}
	w.add(s)
}

// release goes on with pods that have no other step: what was begun is ended or taken back, and they go into service.
func (w *world) release() {
	from := len(w.Steps)
	for _, m := range w.active {
		if m.stepped {
			continue
		}
		s := Step{Kind: StepMarkReady, Key: m.Key, Reason: ReasonRestored}
		switch {
		case m.PreparingDelete:
			s.Kind, s.Why = StepCancelDelete, "prepared for a deletion that is not wanted now"
		case m.Update == UpdateAwaitingHook:
			w.hooked++
			continue
		case m.Update == UpdateHeld:
			s.Reason, s.Why = ReasonStarted, "nothing holds the pod back"
		case m.Update == UpdatePreparing:
			s.Why = "prepared for an update that is not wanted now"
		case m.Update == UpdateNotReady, m.Update == UpdateDraining:
			s.Why = "marked for an update that is not wanted now"
		case m.Update == UpdateNextBatch:
			s.Kind, s.Reason, s.Why = StepUpdateInPlace, ReasonNextBatch, "the containers written before are ready"
		case m.Update == UpdateCompleted:
			s.Reason, s.Why = ReasonUpdated, "the update is complete"
		default: // UpdateNone, UpdateInProgress
			continue
		}
		w.add(s)
	}
	slices.SortFunc(w.Steps[from:], func(a, b Step) int { return strings.Compare(a.Key, b.Key) })
	if w.hooked > 0 {
		w.hold(ReasonHook, w.hooked, "%d pods wait for their lifecycle hooks", w.hooked)
	}
	if w.draining > 0 {
		w.hold(ReasonDraining, w.draining, "%d pods wait until their traffic is gone", w.draining)
	}
}
