package rollout

import (
	"fmt"
	"slices"
)

// surge is how many pods above Want are needed now.
func (w *world) surge() int {
	if w.places != nil {
		return 0 // see surgeInPlaces
	}
	return max(min(max(w.surgeForNamed(), w.surgeForUpdate()), w.goal.MaxSurge), 0)
}

// surgeForNamed: named pods that are to be replaced, and that the budget does not let go before their replacement is
// there. Pause does not stop it, because a named delete is no update.
func (w *world) surgeForNamed() int {
	replace := min(w.goal.Replicas-len(w.old)-len(w.young), len(w.doomed))
	serving := 0
	for _, m := range w.doomed {
		if m.Available {
			serving++
		}
	}
	return max(min(replace, serving-max(w.available-w.floor, 0)), 0)
}

// surgeForUpdate: pods that have to be re-created. Pods that are edited in place need none, unless no pod may be
// unavailable: then a spare one has to serve first. A paused goal keeps what surge there is and adds none. Nothing tells
// pods of a surge from pods that a lower Want made spare, so a scale-in by less than MaxSurge in the middle of a paused
// update waits as well; a Hold says so.
func (w *world) surgeForUpdate() int {
	if w.goal.MaxSurge <= 0 {
		return 0
	}
	n := 0
	t := w.turn(w.old, w.young)
	for _, m := range t.from {
		if t.n == 0 {
			break
		}
		switch by := w.way(m); {
		case by == wayNone:
			continue
		case by == wayRecreate, !w.quiet(m) && w.goal.MaxUnavailable == 0:
			n++
		}
		t.n--
	}
	if w.goal.Paused {
		n = min(n, max(len(w.active)-w.goal.Replicas, 0), w.goal.MaxSurge)
		if n > 0 {
			w.hold(ReasonPaused, n, "paused: %d pods above %d wanted stay for the update", n, w.goal.Replicas)
		}
	}
	return n
}

// asOld tells whether scaling counts the pod as an old one.
func (w *world) asOld(m *member) bool {
	if w.goal.PreparingUpdateAsUpdated && m.Update == UpdatePreparing {
		return false
	}
	return m.Old
}

// create makes up for missing pods. Old ones are made first, up to the partition. Pods that are deleted in this very pass
// are made up for when they are seen to have left; so are those that wait for it, unless they are to be skipped.
func (w *world) create(surge int) {
	if w.places != nil {
		w.createInPlaces()
		return
	}
	have, old, unavailable := 0, 0, 0
	for _, m := range w.active {
		if !m.Available && (!m.ToDelete || m.PreparingDelete) {
			unavailable++
		}
		if w.goal.ExcludePreparingDelete && m.PreparingDelete && m.stepped {
			continue
		}
		have++
		if !m.ToDelete && w.asOld(m) {
			old++
		}
	}
	missing := w.goal.Replicas - have
	n := w.bounded(missing+surge, unavailable)
	if n <= 0 {
		return
	}
	old = min(w.goal.Partition-old, n)
	whyMissing := fmt.Sprintf("%d pods < %d wanted", have, w.goal.Replicas)
	whySurge := fmt.Sprintf("%s + %d surge, so that others can be replaced", whyMissing, surge)
	w.Steps = slices.Grow(w.Steps, n)
	for i := range n {
		s := Step{Kind: StepCreate, Old: i < old, Reason: ReasonMissing, Why: whyMissing}
		if i >= missing {
			s.Reason, s.Why = ReasonSurge, whySurge
		}
		w.add(s)
	}
}

// bounded is how many of n pods may be created now, while others are unavailable.
func (w *world) bounded(n, unavailable int) int {
	if limit := w.goal.ScaleMaxUnavailable; limit != nil {
		room := max(*limit-unavailable, 0)
		if n > room {
			w.hold(ReasonScaleLimit, n-room, "%d new pods wait: %d unavailable and %d made now, of %d", n-room, unavailable, room, *limit)
		}
		n = min(n, room)
	}
	if n > MaxCreates {
		w.hold(ReasonBurst, n-MaxCreates, "%d new pods wait: %d are created at a time", n-MaxCreates, MaxCreates)
	}
	return min(n, MaxCreates)
}

// deleteNamed deletes the pods that somebody named, as far as the budget goes.
func (w *world) deleteNamed() {
	const why, who = "marked for deletion", "pods marked for deletion wait"
	if w.places == nil {
		sortForScaleIn(w.doomed)
		w.dropSome(w.doomed, ReasonNamed, why, who)
		return
	}
	slices.SortFunc(w.doomed, firstToGo)
	held := 0
	for _, m := range w.doomed { // Who comes after one that waits may be free: its successor may serve already.
		if !w.drop(m, ReasonNamed, why) {
			held++
		}
	}
	if held > 0 {
		w.holdBudget(held, who)
	}
}

// scaleIn deletes pods above the wanted number. Those that were prepared for it go first, so that the choice stays as it
// is; then old ones down to the partition, then new ones, and of each the one that serves least.
func (w *world) scaleIn(surge int) {
	if w.places != nil {
		w.bury()
		w.vacate()
		for _, m := range w.doomed {
			w.surgeBeside(m)
		}
		return
	}
	kept := len(w.old) + len(w.young)
	n := kept - w.goal.Replicas - surge
	if n <= 0 {
		return
	}
	var parting, old, young []*member
	for _, m := range slices.Concat(w.old, w.young) {
		switch {
		case m.PreparingDelete:
			parting = append(parting, m)
		case w.asOld(m):
			old = append(old, m)
		default:
			young = append(young, m)
		}
	}
	sortForScaleIn(parting)
	if len(parting) > n {
		w.lastGoOn(parting)
		parting = parting[:n] // the others go for the update, or come back
	}
	n -= len(parting)
	olds := min(max(len(old)-w.goal.Partition, 0), n, len(old))
	why, who := fmt.Sprintf("%d pods > %d wanted", kept, w.goal.Replicas), "pods above the wanted number wait"
	w.dropSome(parting, ReasonScaleIn, why, who)
	if olds > 0 {
		sortForScaleIn(old)
		w.dropSome(old[:olds], ReasonScaleIn, why, who)
	}
	if youngs := min(n-olds, len(young)); youngs > 0 {
		sortForScaleIn(young)
		w.dropSome(young[:youngs], ReasonScaleIn, why, who)
	}
}

// lastGoOn puts pods last that are deleted for the update anyway: else one that it does not delete would come back, only to
// be asked again.
func (w *world) lastGoOn(parting []*member) {
	back := w.turn(w.old, w.young).back
	goesOn := func(m *member) bool { return m.Old != back && w.way(m) == wayRecreate }
	slices.SortStableFunc(parting, func(a, b *member) int { return falseFirst(goesOn(a), goesOn(b)) })
}

// dropSome drops pods until the budget refuses one.
func (w *world) dropSome(from []*member, r Reason, why, who string) {
	if len(from) <= max(w.available, w.ready)-w.floor { // All of them go.
		w.Steps = slices.Grow(w.Steps, len(from))
	}
	for i, m := range from {
		if !w.drop(m, r, why) {
			w.holdBudget(len(from)-i, who)
			return
		}
	}
}

// drop plans to delete a named or spare pod, if that leaves enough pods available. Pods that nothing but a lower Want
// made spare are judged by readiness instead: else a long time until pods count as available would hold up scale-in,
// although what remains is ready. Where fewer than the minimum are available anyway, ready pods are not given away
// below it either.
func (w *world) drop(m *member, r Reason, why string) bool {
	switch {
	case m.PreparingDelete:
		why += "; prepared for it"
	case w.places != nil && !w.covers(m):
		why += "; no wanted slot depends on it, so free"
	case !m.serves():
		why += "; not ready, so free"
	case !m.Available && (w.available >= w.floor || w.ready > w.floor):
		why += "; not available, so free"
	case m.Available && w.available > w.floor:
		why += fmt.Sprintf("; %d available > %d minimum", w.available, w.floor)
	case w.places == nil && w.spare > 0 && w.ready > w.floor:
		why += fmt.Sprintf("; %d ready > %d minimum", w.ready, w.floor)
	default:
		return false
	}
	if !m.PreparingDelete {
		w.spare--
	}
	w.remove(m, Step{Key: m.Key, Reason: r, Why: why})
	return true
}

// remove plans the next step that takes the pod away.
func (w *world) remove(m *member, s Step) {
	w.take(m)
	switch {
	case !m.DeleteHooked:
		s.Kind = StepDelete
	case !m.PreparingDelete:
		s.Kind = StepPrepareDelete
		s.Why += "; its lifecycle hook comes first"
	default:
		w.hooked++
		return
	}
	w.add(s)
}
