package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// place is one slot within one call of Next.
type place struct {
	Slot
	// pods are those in it that count; leaving says that one in it is about to go.
	pods    []*member
	leaving bool
	// twin: a second pod is in it, until one of the two can go.
	twin bool
	// completed: a pod in it has ended and keeps it.
	completed bool
}

// keeps tells whether a pod has ended and keeps its slot.
func (w *world) keeps(m *member) bool { return w.goal.KeepEnded && m.Ended && !m.ToDelete }

// occupy puts pods in their places. Available counts places from here on: a second pod in one adds nothing, nor does one
// that is in no wanted place.
func (w *world) occupy(members []member) {
	w.places = make(map[string]*place, len(w.goal.Slots))
	for _, s := range w.goal.Slots {
		w.places[s.Key] = &place{Slot: Slot{Key: s.Key, Old: s.Old && w.goal.Mode != OnDelete}}
	}
	for i := range members {
		m := &members[i]
		p := w.places[m.Slot]
		switch {
		case p == nil:
		case w.keeps(m):
			p.completed = true
		case m.Inactive:
			p.leaving = true
		default:
			p.pods = append(p.pods, m)
		}
	}
	w.available = 0
	for _, p := range w.places {
		slices.SortFunc(p.pods, func(a, b *member) int { return w.better(p, a, b) })
		if p.available() {
			w.available++
		}
	}
	w.keep()
}

// keep lets as many more places keep the old revision as the partition asks for beyond those that do so by themselves: of those
// that have no pod of the new one, the last to be updated first, and then empty ones.
func (w *world) keep() {
	n := w.goal.Partition
	var last, empty []*place
	for _, s := range w.goal.Slots {
		p := w.places[s.Key]
		if p.completed || slices.ContainsFunc(p.pods, func(m *member) bool { return !m.Old }) || len(p.pods) == 0 && w.goal.CreateUpdated {
			continue
		}
		switch {
		case p.Old:
			n--
		case len(p.pods) == 0:
			empty = append(empty, p)
		default:
			last = append(last, p)
		}
	}
	slices.SortFunc(last, func(a, b *place) int {
		x, y := a.pods[0], b.pods[0]
		return -cmp.Or(falseFirst(!x.PreparingDelete, !y.PreparingDelete), firstToUpdate(x, y))
	})
	last = append(last, empty...)
	for _, p := range last[:min(max(n, 0), len(last))] {
		p.Old = true
	}
}

// better orders the pods of a place: what serves at the right revision first, then what serves, then what is right.
func (w *world) better(p *place, a, b *member) int {
	right := func(m *member) bool { return m.Old == p.Old }
	return cmp.Or(
		falseFirst(right(b) && b.Available, right(a) && a.Available),
		falseFirst(b.Available, a.Available),
		falseFirst(right(b), right(a)),
		before(b, a),
	)
}

// covers tells whether one available pod less would remain if this one went.
func (w *world) covers(m *member) bool {
	if !m.Available || w.places == nil {
		return m.Available
	}
	p := w.places[m.Slot]
	return p != nil && !p.completed && !slices.ContainsFunc(p.pods, func(o *member) bool { return o != m && o.Available && !o.stepped })
}

// turnInPlaces is turn where places say which revision they keep. A pod beside which another one is made or has been made
// goes by vacate.
func (w *world) turnInPlaces(old, young []*member) turn {
	wrong := func(pods []*member) []*member {
		return slices.DeleteFunc(slices.Clone(pods), func(m *member) bool {
			p := w.places[m.Slot]
			return p == nil || p.Old == m.Old || p.twin
		})
	}
	t := turn{from: wrong(old), to: young}
	if len(t.from) == 0 && w.goal.Rollback {
		t = turn{from: wrong(young), to: old, back: true}
	}
	t.n, t.above = len(t.from), len(t.from)
	return t
}

// vacate deletes pods that are in no wanted place, and of two in one place that which can go. A new pod beside an old one
// that serves stays, as long as it is a surge.
func (w *world) vacate() {
	var spare []*member
	for _, m := range slices.Concat(w.old, w.young) {
		if w.places[m.Slot] == nil {
			spare = append(spare, m)
		}
	}
	slices.SortFunc(spare, firstToGo)
	if w.goal.Ordered && len(spare) > 0 {
		spare = w.nextToGo(spare)
	}
	for _, m := range spare {
		w.drop(m, ReasonScaleIn, fmt.Sprintf("slot %q is not wanted", m.Slot))
	}
	for _, s := range w.goal.Slots {
		p := w.places[s.Key]
		for _, m := range p.pods[min(1, len(p.pods)):] {
			switch {
			case m.ToDelete:
				w.parted++
			case w.pair(p, p.pods[0], m):
				p.twin = true
				w.twins++
			default:
				w.parted++
				w.drop(m, ReasonRecreate, "another pod is in slot "+p.Key)
			}
		}
	}
}

// nextToGo is the first of the spare pods, in order, or none while it has to wait. As in kube 1.36 StatefulSet (processCondemned):
// one that is not available waits as well, unless it is the only one. One that was prepared stays so while it waits.
func (w *world) nextToGo(spare []*member) []*member {
	m, why := spare[0], ""
	switch key, waits := w.firstUnavailable(); {
	case w.leaving:
		why = "another one is leaving"
	case waits:
		why = fmt.Sprintf("slot %s has no available pod", key)
	case m.Available, m.PreparingDelete, !slices.ContainsFunc(spare[1:], func(o *member) bool { return !o.Available }):
		return spare[:1]
	default:
		why = m.Key + " is not available, and is not the only one"
	}
	w.hold(ReasonInOrder, len(spare), "%d spare pods wait: %s", len(spare), why)
	m.stepped = m.PreparingDelete
	return nil
}

// firstToGo orders pods of places for their deletion: by the caller's order, before all else but that they were prepared for it.
func firstToGo(a, b *member) int {
	return cmp.Or(falseFirst(!a.PreparingDelete, !b.PreparingDelete), cmp.Compare(a.Rank.Order, b.Rank.Order), before(a, b))
}

// bury deletes pods that have ended, so that their places become free.
func (w *world) bury() {
	slices.SortFunc(w.ended, firstToGo)
	for _, m := range w.ended {
		w.remove(m, Step{Key: m.Key, Reason: ReasonEnded, Why: fmt.Sprintf("phase %s; slot %q is for another pod", m.Rank.Phase, m.Slot)})
	}
}

// pair tells whether two pods stay in one place: the one that serves and the one that is to take over, as many as may, and
// while updates are paused the former one as well. What takes over from a named pod need not be of another revision.
func (w *world) pair(p *place, best, m *member) bool {
	switch {
	case p.twin:
		return false
	case best.ToDelete && best.Available && (p.Old || !m.Old):
		return w.twins < w.goal.MaxSurge
	case best.Old == m.Old:
		return false
	case w.goal.Paused:
		return true
	default:
		return w.twins < w.goal.MaxSurge && best.Available && m.Old == p.Old
	}
}

// surgeInPlaces makes a new pod beside old ones that serve and have to be re-created, in as many places as may hold two. Those whose
// second pod is to go in this very pass still hold it.
func (w *world) surgeInPlaces(t turn) {
	for _, m := range t.from {
		if w.way(m) == wayRecreate {
			w.surgeBeside(m)
		}
	}
}

// surgeBeside makes a new pod beside one that serves and has to go, unless as many places hold two as may. Beside a named one it
// is of the revision that it would have in the empty place.
func (w *world) surgeBeside(m *member) {
	p := w.places[m.Slot]
	if p == nil || w.twins+w.parted >= w.goal.MaxSurge || m.stepped || !m.Available || m.taken() || p.leaving || len(p.pods) != 1 {
		return
	}
	p.twin, m.surged = true, true
	w.twins++
	w.surges = append(w.surges, Step{
		Kind: StepCreate, Slot: p.Key, Old: p.Old && (!m.ToDelete || !w.goal.CreateUpdated), Reason: ReasonSurge,
		Why: fmt.Sprintf("a pod beside %s, %d of %d slots with two", m.Key, w.twins+w.parted, w.goal.MaxSurge),
	})
}

// createInPlaces fills places that are empty.
func (w *world) createInPlaces() {
	unavailable := 0
	for _, p := range w.places {
		if len(p.pods) > 0 && !p.available() || len(p.pods) == 0 && p.leaving && !p.completed {
			unavailable++
		}
	}
	var empty []Step
	for _, s := range w.goal.Slots {
		if p := w.places[s.Key]; len(p.pods) == 0 && !p.leaving && !p.completed {
			empty = append(empty, Step{
				Kind: StepCreate, Slot: s.Key, Old: p.Old && !w.goal.CreateUpdated, Reason: ReasonMissing, Why: fmt.Sprintf("slot %s is empty", s.Key),
			})
		}
	}
	missing := len(empty) + w.goal.Replicas - len(w.goal.Slots)
	n := missing
	if w.goal.Ordered && n > 0 {
		n = 1
		if key, _ := w.firstUnavailable(); len(empty) == 0 || key != empty[0].Slot {
			w.hold(ReasonInOrder, missing, "%d new pods wait: slot %s has no available pod", missing, key)
			n = 0
		}
	}
	n = min(w.bounded(n, unavailable), len(empty))
	w.Steps = append(append(w.Steps, empty[:n]...), w.surges...)
}

// firstUnavailable is the first place without an available pod.
func (w *world) firstUnavailable() (key string, found bool) {
	for _, s := range w.goal.Slots {
		if !w.places[s.Key].available() {
			return s.Key, true
		}
	}
	return "", false
}

func (p *place) available() bool {
	return p.completed || slices.ContainsFunc(p.pods, func(m *member) bool { return m.Available })
}
