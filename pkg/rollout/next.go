package rollout

import (
	"fmt"
	"slices"
	"time"
)

// Next returns what to do now to come nearer to the goal, and why. It changes nothing in pods, and calls with the same
// arguments give the same steps. A caller may do any part of the steps, in any order, and must observe the result
// before it asks again.
func Next(g Goal, pods []Pod, now time.Time) Steps {
	w := observe(g, pods)
	surge := w.surge()
	w.deleteNamed()
	w.scaleIn(surge)
	w.update()
	w.create(surge)
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
	// ended are those that leave and have to be deleted for it.
	ended []*member

	// floor is how many pods have to stay available: Want - MaxUnavailable.
	floor int
	// available and ready are what remains after the steps planned so far.
	available, ready int
	// spare is how many pods, after the steps planned so far, no surge explains: they are above Want + MaxSurge because
	// fewer are wanted than before.
	spare int
	// leaving tells that some pod is about to go.
	leaving bool
	// places are the slots by key; nil if pods have none. twins is how many of them hold a second pod, on purpose, parted how
	// many second pods are to go.
	places        map[string]*place
	twins, parted int

	// hooked is how many pods wait for somebody else, draining how many wait for their grace period.
	hooked, draining int
}

func observe(g Goal, pods []Pod) *world {
	g.Replicas = max(g.Replicas, 0)
	if g.Slots != nil {
		g.Replicas = len(g.Slots)
	}
	g.Partition = min(max(g.Partition, 0), g.Replicas)
	if g.Mode == OnDelete {
		g.Partition = 0
	}
	w := &world{goal: g, floor: max(g.Replicas-g.MaxUnavailable, 0), spare: -g.Replicas - g.MaxSurge}
	members := make([]member, len(pods))
	for i := range pods {
		m := &members[i]
		m.Pod = &pods[i]
		if m.Inactive {
			w.leaving = true
			if m.Ended {
				w.ended = append(w.ended, m)
			}
			continue
		}
		w.active = append(w.active, m)
		switch {
		case m.ToDelete:
			w.doomed = append(w.doomed, m)
		case m.Old:
			w.old = append(w.old, m)
		default:
			w.young = append(w.young, m)
		}
		if m.Available {
			w.available++
		}
		if m.serves() {
			w.ready++
		}
		if !m.PreparingDelete {
			w.spare++
		}
	}
	if g.Slots != nil {
		w.occupy(members)
	}
	return w
}

// turn is which pods shall change their revision now.
type turn struct {
	// from are pods of the wrong revision in the order of their update; to are those of the other one.
	from, to []*member
	// n of them shall change, above of them may.
	n, above int
	// back: they go to the old revision.
	back bool
}

// turn returns how many of the old pods shall become new: no more than are above the partition, and no more than new
// ones are missing; or, with Rollback, how many go back likewise.
func (w *world) turn(old, young []*member) turn {
	var t turn
	above := len(old) - w.goal.Partition
	missing := w.goal.Replicas - w.goal.Partition - len(young)
	switch {
	case w.goal.Mode == OnDelete:
	case w.places != nil:
		t = w.turnInPlaces(old, young)
	case w.goal.Rollback && above < 0 && missing < 0:
		t = turn{from: young, to: old, n: min(-above, -missing), above: -missing, back: true}
	default:
		t = turn{from: old, to: young, n: max(min(above, missing), 0), above: max(above, 0)}
	}
	if t.above > 0 { // A set at rest has many pods and no need of their order.
		slices.SortFunc(t.from, firstToUpdate)
	}
	return t
}

type way int

const (
	wayNone way = iota
	wayEdit
	wayRecreate
)

// way is how the pod comes to the other revision.
func (w *world) way(m *member) way {
	switch {
	case w.goal.Mode == OnDelete:
		return wayNone
	case w.goal.Mode == ReCreate:
		return wayRecreate
	case m.NotInPlace == "":
		return wayEdit
	case w.goal.Mode == InPlaceIfPossible:
		return wayRecreate
	default:
		return wayNone
	}
}

// quiet tells that an update takes nothing out of service.
func (w *world) quiet(m *member) bool { return w.way(m) == wayEdit && m.NoRestart && !m.UpdateHooked }

// take notes that the pod has its step and serves no more.
func (w *world) take(m *member) {
	if w.covers(m) {
		w.available--
	}
	m.stepped = true
	if m.serves() {
		w.ready--
	}
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
		if p := &pods[i]; !p.Inactive && p.ChangesAt.After(now) {
			if in := p.ChangesAt.Sub(now); d == 0 || in < d {
				d = in
			}
		}
	}
	return d
}
