package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Next returns what to do now to come nearer to the goal, and why. It changes nothing in pods, and calls with the same
// arguments give the same steps. A caller may do any part of the steps, in any order, and must observe the result
// before it asks again.
func Next(g Goal, pods []Pod, now time.Time) Steps {
	w := observe(g, pods)
	surge := w.surge()
	w.create(surge)
	w.deleteNamed()
	w.scaleIn(surge)
	w.update()
	w.release()
	w.steps.Recheck = recheck(pods, now)
	return w.steps
}

// world is the state of one call: the pods that count, what they add up to, and what may still be taken.
type world struct {
	goal  Goal
	steps Steps

	// active are the pods that count; old, young and doomed share them out. Doomed pods are in doomed only.
	active, old, young, doomed []*member

	// floor is how many pods have to stay available: Want - MaxUnavailable.
	floor int
	// available and ready are what remains after the steps planned so far.
	available, ready int
	// spare is how many pods, after the steps planned so far, no surge explains: they are above Want + MaxSurge because
	// fewer are wanted than before.
	spare int
}

func observe(g Goal, pods []Pod) *world {
	g.Want = max(g.Want, 0)
	g.Partition = min(max(g.Partition, 0), g.Want)
	if g.Mode == OnDelete {
		g.Partition = 0
	}
	w := &world{goal: g, floor: max(g.Want-g.MaxUnavailable, 0)}
	members := make([]member, len(pods))
	for i := range pods {
		m := &members[i]
		m.Pod = &pods[i]
		if m.Leaving {
			continue
		}
		w.active = append(w.active, m)
		switch {
		case m.Doomed:
			w.doomed = append(w.doomed, m)
		case m.Old:
			w.old = append(w.old, m)
		default:
			w.young = append(w.young, m)
		}
		if m.Available {
			w.available++
		}
		if m.Ready {
			w.ready++
		}
	}
	slices.SortFunc(w.old, firstToUpdate)
	w.spare = len(w.active) - g.Want - g.MaxSurge
	return w
}

// updates is how many of the old pods shall become new: no more than are above the partition, and no more than new ones
// are missing.
func (w *world) updates(old, young int) int {
	if w.goal.Mode == OnDelete {
		return 0
	}
	return max(min(old-w.goal.Partition, w.goal.Want-w.goal.Partition-young), 0)
}

// surge is how many pods above Want are needed now.
func (w *world) surge() int {
	return max(min(max(w.surgeForNamed(), w.surgeForUpdate()), w.goal.MaxSurge), 0)
}

// surgeForNamed: named pods that are to be replaced, and that the budget does not let go before their replacement is
// there. Pause does not stop it, because a named delete is no update.
func (w *world) surgeForNamed() int {
	replace := min(w.goal.Want-len(w.old)-len(w.young), len(w.doomed))
	serving := 0
	for _, m := range w.doomed {
		if m.Available {
			serving++
		}
	}
	return max(min(replace, serving-max(w.available-w.floor, 0)), 0)
}

// surgeForUpdate: old pods that have to be re-created. Pods that are edited in place need none, unless no pod may be
// unavailable: then a spare one has to serve first. A paused goal keeps what surge there is and adds none. Nothing tells
// pods of a surge from pods that a lower Want made spare, so a scale-in by less than MaxSurge in the middle of a paused
// update waits as well; a Hold says so.
func (w *world) surgeForUpdate() int {
	if w.goal.MaxSurge <= 0 {
		return 0
	}
	n := 0
	for _, m := range w.old[:w.updates(len(w.old), len(w.young))] {
		recreate := w.way(m) == wayRecreate
		edit := w.way(m) == wayEdit && !m.Quiet && w.goal.MaxUnavailable == 0
		if recreate || edit {
			n++
		}
	}
	if w.goal.Paused {
		n = min(n, max(len(w.active)-w.goal.Want, 0), w.goal.MaxSurge)
		if n > 0 {
			w.hold(ReasonPaused, n, "paused: %d pods above %d wanted stay for the update", n, w.goal.Want)
		}
	}
	return n
}

type way int

const (
	wayNone way = iota
	wayEdit
	wayRecreate
)

// way is how the pod comes to the new revision.
func (w *world) way(m *member) way {
	switch {
	case w.goal.Mode == OnDelete:
		return wayNone
	case w.goal.Mode == ReCreate:
		return wayRecreate
	case m.NoEdit == "":
		return wayEdit
	case w.goal.Mode == InPlaceIfPossible:
		return wayRecreate
	default:
		return wayNone
	}
}

// create makes up for missing pods. Old ones are made first, up to the partition. Pods that leave in this very pass
// are made up for when they are seen to have left.
func (w *world) create(surge int) {
	missing := w.goal.Want - len(w.active)
	n := missing + surge
	if n <= 0 {
		return
	}
	old := min(w.goal.Partition-len(w.old), n)
	whyMissing := fmt.Sprintf("%d pods < %d wanted", len(w.active), w.goal.Want)
	whySurge := fmt.Sprintf("%s + %d surge, so that others can be replaced", whyMissing, surge)
	w.steps.Create = make([]Create, n)
	for i := range w.steps.Create {
		c := Create{Old: i < old, Reason: ReasonMissing, Why: whyMissing}
		if i >= missing {
			c.Reason, c.Why = ReasonSurge, whySurge
		}
		w.steps.Create[i] = c
	}
}

// deleteNamed deletes the pods that somebody named, as far as the budget goes.
func (w *world) deleteNamed() {
	sortForScaleIn(w.doomed)
	for i, m := range w.doomed {
		if !w.drop(m, ReasonNamed, "named for deletion") {
			w.holdBudget(len(w.doomed)-i, "named pods wait")
			return
		}
	}
}

// scaleIn deletes pods above the wanted number: old ones down to the partition first, then new ones, and of each the one
// that serves least.
func (w *world) scaleIn(surge int) {
	kept := len(w.old) + len(w.young)
	n := kept - w.goal.Want - surge
	if n <= 0 {
		return
	}
	old := min(max(len(w.old)-w.goal.Partition, 0), n)
	why := fmt.Sprintf("%d pods > %d wanted", kept, w.goal.Want)
	for _, part := range []struct {
		from []*member
		n    int
	}{{w.old, old}, {w.young, n - old}} {
		if part.n == 0 {
			continue
		}
		from := slices.Clone(part.from)
		sortForScaleIn(from)
		for i, m := range from[:min(part.n, len(from))] {
			if !w.drop(m, ReasonScaleIn, why) {
				w.holdBudget(part.n-i, "pods above the wanted number wait")
				break
			}
		}
	}
}

// drop plans to delete a named or spare pod, if that leaves enough pods available. Pods that nothing but a lower Want
// made spare are judged by readiness instead: else a long time until pods count as available would hold up scale-in,
// although what remains is ready. Where fewer than the minimum are available anyway, ready pods are not given away
// below it either.
func (w *world) drop(m *member, r Reason, why string) bool {
	switch {
	case !m.Ready:
		why += "; not ready, so free"
	case !m.Available && (w.available >= w.floor || w.ready > w.floor):
		why += "; not available, so free"
	case m.Available && w.available > w.floor:
		why += fmt.Sprintf("; %d available > %d minimum", w.available, w.floor)
	case w.spare > 0 && w.ready > w.floor:
		why += fmt.Sprintf("; %d ready > %d minimum", w.ready, w.floor)
	default:
		return false
	}
	w.delete(m, r, why)
	w.spare--
	return true
}

func (w *world) delete(m *member, r Reason, why string) {
	w.take(m)
	w.steps.Delete = append(w.steps.Delete, Step{Key: m.Key, Reason: r, Why: why})
}

// take notes that the pod has its step and serves no more.
func (w *world) take(m *member) {
	m.stepped = true
	if m.Available {
		w.available--
	}
	if m.Ready {
		w.ready--
	}
}

// update brings old pods to the new revision, as far as partition, budget and pace allow.
func (w *world) update() {
	old := slices.DeleteFunc(slices.Clone(w.old), (*member).hasStep)
	young := slices.DeleteFunc(slices.Clone(w.young), (*member).hasStep)
	n := w.updates(len(old), len(young))
	if n == 0 {
		return
	}
	if w.goal.Paused {
		w.hold(ReasonPaused, n, "paused: %d old pods wait", n)
		return
	}
	inFlight := 0
	for _, m := range young {
		if !m.Available {
			inFlight++
		}
	}
	pace := w.goal.MaxUnavailable + w.left() - w.goal.Want
	refused, refusal := 0, ""
	for _, m := range old {
		if n == 0 {
			return
		}
		by := w.way(m)
		quiet := by == wayEdit && m.Quiet
		switch {
		case by == wayNone:
			refused, refusal = refused+1, m.NoEdit
			continue
		case m.inFlight() || quiet:
			// It is out of service already, or stays in it.
		case inFlight >= pace && pace > 0:
			w.hold(ReasonInFlight, n, "%d old pods wait: %d updated pods not available >= %d at a time", n, inFlight, pace)
			return
		case pace <= 0 || m.Available && w.available <= w.floor:
			w.holdBudget(n, "old pods wait")
			return
		}
		w.change(m, by)
		n--
		if !quiet {
			inFlight++
		}
	}
	if n > 0 && refused > 0 {
		w.hold(ReasonNotInPlace, refused, "%d old pods can't be updated in place: %s", refused, refusal)
	}
}

// left is how many active pods remain after the steps planned so far.
func (w *world) left() int { return len(w.active) - len(w.steps.Delete) }

func (m *member) hasStep() bool { return m.stepped }

// change plans the next step that brings one old pod to the new revision.
func (w *world) change(m *member, by way) {
	why := "old revision; "
	switch {
	case by == wayEdit && m.Quiet:
		why += "nothing restarts, so free"
	case m.inFlight():
		why += "out of service for an update already, so free"
	case m.Available:
		why += fmt.Sprintf("%d available > %d minimum", w.available, w.floor)
	default:
		why += "not available, so free"
	}
	if by == wayRecreate {
		if m.NoEdit != "" && w.goal.Mode == InPlaceIfPossible {
			why += "; not in place: " + m.NoEdit
		}
		w.delete(m, ReasonRecreate, why)
		return
	}
	step := Step{Key: m.Key, Reason: ReasonInPlace, Why: why}
	if m.Quiet {
		m.stepped = true
	} else {
		w.take(m)
	}
	if m.Gated && !m.Quiet && !m.inFlight() {
		w.steps.Mark = append(w.steps.Mark, step)
	} else {
		w.steps.Edit = append(w.steps.Edit, step)
	}
}

// release puts pods into service for which there is nothing else to do.
func (w *world) release() {
	for _, m := range w.active {
		if m.stepped {
			continue
		}
		s := Step{Key: m.Key}
		switch m.Edit {
		case EditHeld:
			s.Reason, s.Why = ReasonStarted, "nothing holds the pod back"
		case EditDone:
			s.Reason, s.Why = ReasonUpdated, "the update is complete"
		case EditMarked:
			s.Reason, s.Why = ReasonRestored, "marked for an update that is not wanted now"
		case EditNone, EditUpdating:
			continue
		}
		w.steps.Release = append(w.steps.Release, s)
	}
	slices.SortFunc(w.steps.Release, func(a, b Step) int { return strings.Compare(a.Key, b.Key) })
}

func (w *world) holdBudget(n int, who string) {
	w.hold(ReasonBudget, n, "%d %s: %d available <= %d minimum", n, who, w.available, w.floor)
}

func (w *world) hold(r Reason, n int, format string, args ...any) {
	w.steps.Holds = append(w.steps.Holds, Hold{Reason: r, Pods: n, Why: fmt.Sprintf(format, args...)})
}

// recheck is how long until the first pod changes by time alone.
func recheck(pods []Pod, now time.Time) time.Duration {
	var d time.Duration
	for i := range pods {
		if p := &pods[i]; !p.Leaving && p.ChangesAt.After(now) {
			if in := p.ChangesAt.Sub(now); d == 0 || in < d {
				d = in
			}
		}
	}
	return d
}
