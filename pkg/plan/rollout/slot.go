package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// slotState is one slot within one call of Next.
type slotState struct {
	Slot
	// pods are the pods in the slot that count; hasInactive: it also holds an inactive one.
	pods        []*podState
	hasInactive bool
	// surging: the slot holds a second pod as a surge, until one of the two can be deleted.
	surging bool
	// completed: a pod in the slot has ended and keeps it.
	completed bool
}

// keepsSlot reports whether a pod has ended and keeps its slot.
func (d *decider) keepsSlot(p *podState) bool { return d.goal.KeepEnded && p.Ended && !p.ToDelete }

// assignSlots assigns pods to their slots. From here on, available and serving count slots: a second pod in a slot, or a pod in an unwanted
// slot, doesn't add to them.
func (d *decider) assignSlots(states []podState) {
	d.slots = make(map[string]*slotState, len(d.goal.Slots))
	for _, s := range d.goal.Slots {
		d.slots[s.Key] = &slotState{Slot: Slot{Key: s.Key, Old: s.Old && d.goal.Mode != OnDelete}}
	}
	for i := range states {
		p := &states[i]
		slot := d.slots[p.Slot]
		switch {
		case slot == nil:
		case d.keepsSlot(p):
			slot.completed = true
		case p.Inactive:
			slot.hasInactive = true
		default:
			slot.pods = append(slot.pods, p)
		}
	}
	d.available, d.serving = 0, 0
	for _, slot := range d.slots {
		slices.SortFunc(slot.pods, func(a, b *podState) int { return d.slotOrder(slot, a, b) })
		if slot.available() {
			d.available++
		}
		if slot.completed || slices.ContainsFunc(slot.pods, (*podState).isServing) {
			d.serving++
		}
	}
	d.applyPartition()
}

// applyPartition marks slots as Old until there are as many as the partition asks for. Of the slots without an updated pod it takes those that
// would be updated last, and then empty ones.
func (d *decider) applyPartition() {
	n := d.goal.Partition
	var last, empty []*slotState
	for _, s := range d.goal.Slots {
		slot := d.slots[s.Key]
		hasUpdated := slices.ContainsFunc(slot.pods, func(p *podState) bool { return !p.Old })
		if slot.completed || hasUpdated || len(slot.pods) == 0 && d.goal.CreateUpdated {
			continue
		}
		switch {
		case slot.Old:
			n--
		case len(slot.pods) == 0:
			empty = append(empty, slot)
		default:
			last = append(last, slot)
		}
	}
	slices.SortFunc(last, func(a, b *slotState) int {
		x, y := a.pods[0], b.pods[0]
		return -cmp.Or(FalseFirst(!x.PreparingDelete, !y.PreparingDelete), updateOrder(x, y))
	})
	last = append(last, empty...)
	for _, slot := range last[:min(max(n, 0), len(last))] {
		slot.Old = true
	}
}

// slotOrder orders the pods of a slot: available pods at the right revision first, then other available pods, then pods that serve, then other
// pods at the right revision.
func (d *decider) slotOrder(slot *slotState, a, b *podState) int {
	right := func(p *podState) bool { return p.Old == slot.Old }
	return cmp.Or(
		FalseFirst(right(b) && b.Available, right(a) && a.Available),
		FalseFirst(b.Available, a.Available),
		FalseFirst(b.serves, a.serves),
		FalseFirst(right(b), right(a)),
		deletionOrder(b, a),
	)
}

// countsAsAvailable reports whether deleting the pod would lower the number of available pods.
func (d *decider) countsAsAvailable(p *podState) bool { return d.counts(p, (*podState).isAvailable) }

// countsAsServing reports whether deleting the pod would lower the number of pods that serve.
func (d *decider) countsAsServing(p *podState) bool { return d.counts(p, (*podState).isServing) }

// counts reports whether p meets the condition and, with slots, whether p is the only such pod in a wanted slot.
func (d *decider) counts(p *podState, meets func(*podState) bool) bool {
	if !meets(p) || d.slots == nil {
		return meets(p)
	}
	slot := d.slots[p.Slot]
	return slot != nil && !slot.completed &&
		!slices.ContainsFunc(slot.pods, func(o *podState) bool { return o != p && meets(o) && !o.hasStep })
}

func (p *podState) isAvailable() bool { return p.Available }

func (p *podState) isServing() bool { return p.serves }

// podsToUpdateInSlots is podsToUpdate for goals with slots, where slots determine the revision of their pods. It skips pods that have a surge
// pod beside them: deleteSurplus deletes those.
func (d *decider) podsToUpdateInSlots(old, updated []*podState) updateSet {
	wrong := func(pods []*podState) []*podState {
		return slices.DeleteFunc(slices.Clone(pods), func(p *podState) bool {
			slot := d.slots[p.Slot]
			return slot == nil || slot.Old == p.Old || slot.surging
		})
	}
	t := updateSet{from: wrong(old), to: updated}
	if len(t.from) == 0 && d.goal.Rollback {
		t = updateSet{from: wrong(updated), to: old, rollback: true}
	}
	t.n, t.allowed = len(t.from), len(t.from)
	return t
}

// deleteSurplus deletes pods in unwanted slots, and all pods in a slot but the best one, except for a surge.
func (d *decider) deleteSurplus() {
	var surplus []*podState
	for _, p := range slices.Concat(d.old, d.updated) {
		if d.slots[p.Slot] == nil {
			surplus = append(surplus, p)
		}
	}
	slices.SortFunc(surplus, slotDeletionOrder)
	if d.goal.Ordered && len(surplus) > 0 {
		surplus = d.nextToDelete(surplus)
	}
	for _, p := range surplus {
		d.tryDelete(p, ReasonScaleIn, fmt.Sprintf("slot %q is not wanted", p.Slot))
	}
	for _, s := range d.goal.Slots {
		slot := d.slots[s.Key]
		best := slot.best()
		for _, p := range slot.pods {
			switch {
			case p == best:
			case p.ToDelete:
				d.extra++
			case d.mayShareSlot(slot, best, p):
				slot.surging = true
				d.surging++
			default:
				d.extra++
				d.tryDelete(p, ReasonRecreate, "another pod is in slot "+slot.Key)
			}
		}
	}
}

// best returns the pod that the slot keeps, nil if the slot is empty. That is the first one in order that isn't being deleted because a user
// requested it: otherwise its replacement would be deleted together with it.
func (slot *slotState) best() *podState {
	for _, p := range slot.pods {
		if !p.ToDelete || !p.hasStep {
			return p
		}
	}
	if len(slot.pods) == 0 {
		return nil
	}
	return slot.pods[0]
}

// nextToDelete returns the first of the surplus pods, in order, or nothing while it has to wait. As in the StatefulSet controller of Kubernetes
// 1.36 (processCondemned), an unavailable pod waits as well, unless it is the only one. A pod that is preparing delete stays so while it waits.
func (d *decider) nextToDelete(surplus []*podState) []*podState {
	p, why := surplus[0], ""
	switch key, waits := d.firstUnavailable(); {
	case d.anyInactive:
		why = "another pod is terminating"
	case waits:
		why = fmt.Sprintf("slot %s has no available pod", key)
	case p.Available, p.PreparingDelete, !slices.ContainsFunc(surplus[1:], func(o *podState) bool { return !o.Available }):
		return surplus[:1]
	default:
		why = p.Key + " isn't available, and it isn't the only one"
	}
	d.hold(ReasonInOrder, len(surplus), "%d surplus pod(s) waiting: %s", len(surplus), why)
	p.hasStep = p.PreparingDelete
	return nil
}

// slotDeletionOrder orders pods in slots for deletion: first pods that are preparing delete, then by the caller's order.
func slotDeletionOrder(a, b *podState) int {
	return cmp.Or(FalseFirst(!a.PreparingDelete, !b.PreparingDelete), cmp.Compare(a.Rank.Order, b.Rank.Order), deletionOrder(a, b))
}

// deleteEnded deletes pods that have ended, so that their slots become free.
func (d *decider) deleteEnded() {
	slices.SortFunc(d.ended, slotDeletionOrder)
	for _, p := range d.ended {
		why := fmt.Sprintf("phase %s; slot %q is needed for another pod", p.Rank.Phase, p.Slot)
		d.planDelete(p, Step{Key: p.Key, Reason: ReasonEnded, Why: why})
	}
}

// mayShareSlot reports whether two pods, the best one and its replacement, may stay in one slot: within MaxSurge, or while updates are paused.
// The replacement of a pod marked for deletion may be at the same revision.
func (d *decider) mayShareSlot(slot *slotState, best, p *podState) bool {
	switch {
	case slot.surging:
		return false
	case best.ToDelete && best.serves && (slot.Old || !p.Old):
		return d.surging < d.goal.MaxSurge
	case best.Old == p.Old:
		return false
	case d.goal.Paused:
		return true
	default:
		return d.surging < d.goal.MaxSurge && best.serves && p.Old == slot.Old
	}
}

// surgeInSlots creates new pods beside old ones that serve and have to be re-created, in as many slots as may hold two pods. A slot whose second
// pod is deleted by this call still counts.
func (d *decider) surgeInSlots(t updateSet) {
	for _, p := range t.from {
		if d.method(p) == methodRecreate {
			d.surgeBeside(p)
		}
	}
}

// surgeBeside creates a replacement beside a pod that serves and has to be deleted, within MaxSurge. For a pod marked for deletion, the
// replacement gets the revision that a pod in the empty slot would get.
func (d *decider) surgeBeside(p *podState) {
	slot := d.slots[p.Slot]
	if slot == nil || slot.hasInactive || len(slot.pods) != 1 || d.surging+d.extra >= d.goal.MaxSurge ||
		p.hasStep || !p.serves || p.outOfService() {
		return
	}
	slot.surging, p.surged = true, true
	d.surging++
	d.surgeCreates = append(d.surgeCreates, Step{
		Kind: StepCreate, Slot: slot.Key, Old: slot.Old && (!p.ToDelete || !d.goal.CreateUpdated), Reason: ReasonSurge,
		Why: fmt.Sprintf("a second pod beside %s, %d of at most %d slots with two", p.Key, d.surging+d.extra, d.goal.MaxSurge),
	})
}

// createInSlots creates pods in empty slots.
func (d *decider) createInSlots() {
	unavailable := 0
	for _, slot := range d.slots {
		if len(slot.pods) > 0 && !slot.available() || len(slot.pods) == 0 && slot.hasInactive && !slot.completed {
			unavailable++
		}
	}
	var empty []Step
	for _, s := range d.goal.Slots {
		if slot := d.slots[s.Key]; len(slot.pods) == 0 && !slot.hasInactive && !slot.completed {
			empty = append(empty, Step{
				Kind: StepCreate, Slot: s.Key, Old: slot.Old && !d.goal.CreateUpdated,
				Reason: ReasonMissing, Why: fmt.Sprintf("slot %s is empty", s.Key),
			})
		}
	}
	missing := len(empty) + d.goal.Replicas - len(d.goal.Slots)
	n := missing
	if d.goal.Ordered && n > 0 {
		n = 1
		if key, _ := d.firstUnavailable(); len(empty) == 0 || key != empty[0].Slot {
			d.hold(ReasonInOrder, missing, "%d new pod(s) waiting: slot %s has no available pod", missing, key)
			n = 0
		}
	}
	n = min(d.limitCreates(n, unavailable), len(empty))
	d.Steps = append(append(d.Steps, empty[:n]...), d.surgeCreates...)
}

// firstUnavailable returns the first slot without an available pod.
func (d *decider) firstUnavailable() (key string, found bool) {
	for _, s := range d.goal.Slots {
		if !d.slots[s.Key].available() {
			return s.Key, true
		}
	}
	return "", false
}

func (slot *slotState) available() bool {
	return slot.completed || slices.ContainsFunc(slot.pods, func(p *podState) bool { return p.Available })
}
