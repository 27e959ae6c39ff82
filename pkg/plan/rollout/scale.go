package rollout

import (
	"fmt"
	"slices"
)

// surge returns how many pods above Replicas a scale-in keeps, and how many may exist including newly created ones. The second can be higher,
// because pods created for an update take the place of pods that it deletes: with a larger MaxSurge, the rest are created while earlier ones are
// not available yet.
func (d *decider) surge() (kept, wanted int) {
	if d.slots != nil || d.goal.MaxSurge <= 0 {
		return 0, 0 // see surgeInSlots
	}
	kept, wanted = d.surgeForUpdate()
	named := d.surgeForNamed()
	return min(max(named, kept), d.goal.MaxSurge), min(max(named, kept, wanted), d.goal.MaxSurge)
}

// surgeForNamed is the surge for pods marked for deletion that the budget doesn't allow deleting before their replacements are available. A
// pause doesn't stop it, because this is not an update.
func (d *decider) surgeForNamed() int {
	replace := min(d.goal.Replicas-len(d.old)-len(d.updated), len(d.toDelete))
	serving := 0
	for _, p := range d.toDelete {
		if p.serves {
			serving++
		}
	}
	return max(min(replace, serving-max(d.available-d.minAvailable, 0)), 0)
}

// surgeForUpdate is the surge for pods that have to be re-created. In-place updates need none, unless no pod may be unavailable. A pod that its
// update has taken out of service keeps its surge. A paused goal keeps existing surge pods and adds none. Surge pods can't be distinguished from
// pods that are surplus after a scale-in, so during a paused update a scale-in by less than MaxSurge waits as well, with a Hold.
func (d *decider) surgeForUpdate() (kept, wanted int) {
	t := d.podsToUpdate(d.old, d.updated)
	for _, p := range t.from {
		by := d.method(p)
		switch {
		case p.PreparingDelete && d.goal.ExcludePreparingDelete, p.Update == UpdatePreparing && d.goal.PreparingUpdateAsUpdated:
			t.allowed-- // Scaling counts it as replaced.
		case by == methodRecreate:
			wanted++
		}
		if by == methodNone || t.n == 0 {
			continue
		}
		if by == methodRecreate || (!d.nonDisruptive(p) || p.Update >= UpdatePreparing) && d.goal.MaxUnavailable == 0 {
			kept++
		}
		t.n--
	}
	wanted = min(wanted, t.allowed)
	if d.goal.Paused {
		kept, wanted = min(kept, max(len(d.active)-d.goal.Replicas, 0), d.goal.MaxSurge), 0
		if kept > 0 {
			d.hold(ReasonPaused, kept, "paused: keeping %d pod(s) beyond the %d wanted for the update", kept, d.goal.Replicas)
		}
	}
	return kept, wanted
}

// countsAsOld reports whether scaling counts the pod as an old one.
func (d *decider) countsAsOld(p *podState) bool {
	if d.goal.PreparingUpdateAsUpdated && p.Update == UpdatePreparing {
		return false
	}
	return p.Old
}

// create creates missing pods, first old ones up to the partition. Pods deleted by this call are replaced once the deletion is observed. So are
// pods that are preparing delete, unless ExcludePreparingDelete is set.
func (d *decider) create(surge int) {
	if d.slots != nil {
		d.createInSlots()
		return
	}
	have, old, unavailable := 0, 0, 0
	for _, p := range d.active {
		if !p.Available && (!p.ToDelete || p.PreparingDelete) {
			unavailable++
		}
		if d.goal.ExcludePreparingDelete && p.PreparingDelete && p.hasStep {
			continue
		}
		have++
		if !p.ToDelete && d.countsAsOld(p) {
			old++
		}
	}
	missing := d.goal.Replicas - have
	n := d.limitCreates(missing+surge, unavailable)
	if n <= 0 {
		return
	}
	old = min(d.goal.Partition-old, n)
	whyMissing := fmt.Sprintf("pods: %d, wanted: %d", have, d.goal.Replicas)
	whySurge := fmt.Sprintf("%s, surge: %d, so that others can be replaced", whyMissing, surge)
	d.Steps = slices.Grow(d.Steps, n)
	for i := range n {
		s := Step{Kind: StepCreate, Old: i < old, Reason: ReasonMissing, Why: whyMissing}
		if i >= missing {
			s.Reason, s.Why = ReasonSurge, whySurge
		}
		d.addStep(s)
	}
}

// limitCreates returns how many of n pods may be created now, while others are unavailable.
func (d *decider) limitCreates(n, unavailable int) int {
	if limit := d.goal.ScaleMaxUnavailable; limit != nil {
		room := max(*limit-unavailable, 0)
		if n > room {
			d.hold(ReasonScaleLimit, n-room, "%d new pod(s) waiting: %d unavailable and %d created now, at most %d", n-room, unavailable, room, *limit)
		}
		n = min(n, room)
	}
	if n > MaxCreates {
		d.hold(ReasonBurst, n-MaxCreates, "%d new pod(s) waiting: at most %d are created at a time", n-MaxCreates, MaxCreates)
	}
	return min(n, MaxCreates)
}

// deleteNamed deletes the pods that a user marked for deletion, as far as the budget allows.
func (d *decider) deleteNamed() {
	const why, who = "marked for deletion", "pod(s) marked for deletion waiting"
	if d.slots == nil {
		sortForScaleIn(d.toDelete)
		d.deleteUntilHeld(d.toDelete, ReasonNamed, why, who)
		return
	}
	slices.SortFunc(d.toDelete, slotDeletionOrder)
	held := 0
	for _, p := range d.toDelete { // Others may go even if this one waits: their replacements may be available.
		if !d.tryDelete(p, ReasonNamed, why) {
			held++
		}
	}
	if held > 0 {
		d.holdBudget(held, who)
	}
}

// scaleIn deletes pods above Replicas: first pods that are preparing delete, so that the choice is stable, then old ones down to the partition,
// then updated ones, each in deletionOrder.
func (d *decider) scaleIn(surge int) {
	if d.slots != nil {
		d.deleteEnded()
		d.deleteSurplus()
		for _, p := range d.toDelete {
			d.surgeBeside(p)
		}
		return
	}
	kept := len(d.old) + len(d.updated)
	n := kept - d.goal.Replicas - surge
	if n <= 0 {
		return
	}
	var preparing, old, updated []*podState
	for _, p := range slices.Concat(d.old, d.updated) {
		switch {
		case p.PreparingDelete:
			preparing = append(preparing, p)
		case d.countsAsOld(p):
			old = append(old, p)
		default:
			updated = append(updated, p)
		}
	}
	sortForScaleIn(preparing)
	if len(preparing) > n {
		d.putRecreatedLast(preparing)
		preparing = preparing[:n] // the others are deleted by the update, or cancelled
	}
	n -= len(preparing)
	fromOld := min(max(len(old)-d.goal.Partition, 0), n, len(old))
	why, who := fmt.Sprintf("pods: %d, wanted: %d", kept, d.goal.Replicas), "surplus pod(s) waiting"
	d.deleteUntilHeld(preparing, ReasonScaleIn, why, who)
	if fromOld > 0 {
		sortForScaleIn(old)
		d.deleteUntilHeld(old[:fromOld], ReasonScaleIn, why, who)
	}
	if fromUpdated := min(n-fromOld, len(updated)); fromUpdated > 0 {
		sortForScaleIn(updated)
		d.deleteUntilHeld(updated[:fromUpdated], ReasonScaleIn, why, who)
	}
}

// putRecreatedLast moves pods to the end that the update deletes anyway. Otherwise the deletion of a pod that the update doesn't delete would be
// cancelled, only to be prepared again.
func (d *decider) putRecreatedLast(preparing []*podState) {
	back := d.podsToUpdate(d.old, d.updated).rollback
	goesOn := func(p *podState) bool { return p.Old != back && d.method(p) == methodRecreate }
	slices.SortStableFunc(preparing, func(a, b *podState) int { return FalseFirst(goesOn(a), goesOn(b)) })
}

// deleteUntilHeld deletes pods in order until the budget holds one of them.
func (d *decider) deleteUntilHeld(from []*podState, r Reason, why, who string) {
	if len(from) <= max(d.available, d.ready)-d.minAvailable { // All of them are deleted.
		d.Steps = slices.Grow(d.Steps, len(from))
	}
	for i, p := range from {
		if !d.tryDelete(p, r, why) {
			d.holdBudget(len(from)-i, who)
			return
		}
	}
}

// tryDelete plans the deletion of a named or surplus pod if enough pods stay available. For a pod that is surplus because of a scale-in, it is
// enough that the others are ready: otherwise a long minReadySeconds would hold up the scale-in although the remaining pods are ready. That
// isn't enough for pods that a rollout replaces, because its new pods have to become available first. If fewer than the minimum are available
// anyway, the number of ready pods doesn't go below the minimum either.
func (d *decider) tryDelete(p *podState, r Reason, why string) bool {
	switch {
	case p.PreparingDelete:
		why += "; already prepared"
	case d.slots != nil && !d.countsAsAvailable(p) && !d.countsAsServing(p):
		why += "; no wanted slot depends on it, so free"
	case !p.inService():
		why += "; not ready, so free"
	case !p.Available && p.serves && d.serving > d.minAvailable:
		why += fmt.Sprintf("; not available, and %d serving > %d minimum", d.serving, d.minAvailable)
	case !p.serves && (d.available >= d.minAvailable || d.ready > d.minAvailable):
		why += "; not available, so free"
	case p.Available && d.available > d.minAvailable:
		why += fmt.Sprintf("; %d available > %d minimum", d.available, d.minAvailable)
	case d.slots == nil && d.surplus > 0 && d.ready > d.minAvailable:
		why += fmt.Sprintf("; %d ready > %d minimum", d.ready, d.minAvailable)
	default:
		return false
	}
	if !p.PreparingDelete {
		d.surplus--
	}
	d.planDelete(p, Step{Key: p.Key, Reason: r, Why: why})
	return true
}

// planDelete plans the next step of the pod's deletion.
func (d *decider) planDelete(p *podState, s Step) {
	d.takeOutOfService(p)
	switch {
	case !p.DeleteHooked:
		s.Kind = StepDelete
	case !p.PreparingDelete:
		s.Kind = StepPrepareDelete
		s.Why += "; its lifecycle hook comes first"
	default:
		d.awaitingHook++
		return
	}
	d.addStep(s)
}
