package rollout_test

import (
	"slices"
	"time"

	"github.com/flotilla-io/flotilla/hub/rollout"
)

// gatekeeper is Advance, or a wrong implementation.
type gatekeeper func(waves []rollout.Wave, open int, soaked time.Duration, skipStale bool, parts []rollout.Part) rollout.Progress

// gates is the part of a world that is about waves.
type gates struct {
	keeper gatekeeper
	waves  []rollout.Wave
	// stable is the last revision that all clusters had. A rollback to it has no waves.
	stable int
	// approved are the waves that were approved, by revision. With approving, each is at once.
	approved  map[[2]int]bool
	approving bool

	// stored is in the status of the object. It survives when the hub stops.
	stored struct {
		revision, open int
		soaked         time.Duration
	}
	// remembers is true if the hub has not stopped since counted, which is when soaked was counted last.
	remembers bool
	counted   int

	// opened says, without the hub's code, which gates have had a reason to open for a revision. healthy is the tick since which the clusters up
	// to each wave are healthy; 0 if they are not.
	revision int
	opened   []bool
	before   map[int][]bool
	healthy  []int
	// unhealthy are the waves that are not healthy now. What a hub has seen counts once it has stored it.
	unhealthy []bool
	// plain is true if no event moves pods, clusters or revisions, so that the limits of waves can be checked.
	plain bool
}

// draw divides the clusters into waves.
func (w *world) draw() {
	g := &w.gates
	g.keeper, g.plain, g.approved = rollout.Advance, true, map[[2]int]bool{}
	for range 2 + w.random.IntN(2) {
		wave := rollout.Wave{Approval: w.random.IntN(3) == 0}
		if w.random.IntN(3) == 0 {
			wave.Soak = time.Duration(1 + w.random.IntN(30))
		}
		if w.random.IntN(3) == 0 {
			wave.Pods = 1 + w.random.IntN(6)
		}
		if w.random.IntN(3) == 0 {
			wave.Clusters = 1
		}
		g.waves = append(g.waves, wave)
	}
	rest := &g.waves[len(g.waves)-1]
	*rest = rollout.Wave{Clusters: rest.Clusters}
	for _, m := range w.members {
		if m.wave = w.random.IntN(len(g.waves)); m.whole {
			g.waves[m.wave].Pods = 0 // It can't keep pods at the old revision.
		}
	}
}

func (w *world) approve(wave int) {
	if len(w.gates.waves) > 0 {
		w.gates.approved[[2]int{w.target, wave}] = true
	}
}

// advance lets waves begin, as a hub does.
func (w *world) advance(now int, l *rollout.Limits, parts []rollout.Part) rollout.Progress {
	g := &w.gates
	if len(g.waves) == 0 || w.target == g.stable {
		return rollout.Progress{}
	}
	if g.stored.revision != w.target {
		g.stored.revision, g.stored.open, g.stored.soaked, g.remembers = w.target, 0, 0, false
	}
	soaked := g.stored.soaked
	if g.remembers {
		soaked += time.Duration(now - g.counted)
	}
	waves := slices.Clone(g.waves)
	for i := range waves {
		if g.approving {
			w.approve(i)
		}
		waves[i].Approved = g.approved[[2]int{w.target, i}]
	}
	p := g.keeper(waves, g.stored.open, soaked, w.skip, parts)
	l.Open, l.Pods, l.Clusters = p.Open, waves[p.Open].Pods, waves[p.Open].Clusters
	return p
}

// save writes the status, after the rows.
func (w *world) save(now int, p rollout.Progress) {
	g := &w.gates
	if len(g.waves) == 0 {
		return
	}
	g.stored.open, g.stored.soaked = p.Open, p.Soaked
	for k, unhealthy := range g.unhealthy {
		if unhealthy {
			g.healthy[k] = 0
		}
	}
	g.remembers, g.counted = p.Phase == rollout.Soaking, now
	w.dirty = w.dirty || p.Phase == rollout.Soaking // It is planned again when the time is over.
	if w.complete() {
		g.stable = w.target
	}
}

// reported reports whether all pods of a cluster are updated and available according to its last report, and how many are.
func (w *world) reported(m *member) (complete bool, pods int) {
	complete = m.row.content == w.target && m.row.status.generation == m.row.generation
	for s, c := range m.row.status.counts {
		n := min(m.row.orders[s].replicas, m.targets[s])
		complete = complete && c.updatedAvailable >= n
		if m.row.content == w.target {
			pods += c.updatedAvailable
		}
	}
	return complete, pods
}

// granted returns how many replicas a cluster has and keeps.
func (m *member) granted() int {
	n := 0
	for s, o := range m.row.orders {
		n += min(o.replicas, m.targets[s])
	}
	return n
}

// watchGates follows what opens gates.
func (w *world) watchGates(now int) {
	g := &w.gates
	if len(g.waves) == 0 {
		return
	}
	if g.revision != w.target {
		if g.before == nil {
			g.before = map[int][]bool{}
		}
		g.before[g.revision] = g.opened // Gates that have opened for a revision stay open if it is rolled out again soon.
		g.revision, g.opened, g.healthy, g.unhealthy = w.target, g.before[w.target], make([]int, len(g.waves)), make([]bool, len(g.waves))
		if g.opened == nil {
			g.opened = make([]bool, len(g.waves))
		}
	}
	for k, wave := range g.waves {
		healthy, pods, size := true, 0, 0
		for _, m := range w.members {
			if m.gone || m.wave > k || w.skip && m.dark(now) {
				continue
			}
			complete, updated := w.reported(m)
			if m.wave == k && wave.Pods > 0 {
				pods += updated
				size += m.granted()
				continue
			}
			healthy = healthy && (complete || m.granted() == 0)
		}
		healthy = healthy && pods >= min(wave.Pods, size)
		if g.unhealthy[k] = !healthy; healthy && g.healthy[k] == 0 {
			g.healthy[k] = now
		}
		before := k == 0 || g.opened[k-1]
		soaked := g.healthy[k] > 0 && time.Duration(now-g.healthy[k]) >= wave.Soak
		approved := !wave.Approval || g.approving || g.approved[[2]int{w.target, k}]
		g.opened[k] = g.opened[k] || before && soaked && approved
	}
}

// mayBegin reports whether clusters of a wave may get the content of the revision that is rolled out.
func (w *world) mayBegin(wave int) bool {
	return len(w.gates.waves) == 0 || w.target == w.gates.stable || wave == 0 || w.gates.opened[wave-1]
}

// checkWaves checks how many pods and clusters of a wave are updated before its gates open.
func (w *world) checkWaves(now int) {
	g := &w.gates
	if len(g.waves) == 0 || !g.plain || w.target == g.stable || g.opened == nil {
		return
	}
	for k, wave := range g.waves {
		if g.opened[k] || k > 0 && !g.opened[k-1] {
			continue
		}
		pods, busy := 0, 0
		for _, m := range w.members {
			if m.wave != k {
				continue
			}
			for _, list := range m.pods {
				for _, p := range list {
					if p.revision == w.target {
						pods++
					}
				}
			}
			if complete, _ := w.reported(m); m.row.content == w.target && !complete {
				busy++
			}
		}
		if wave.Pods > 0 && pods > wave.Pods {
			w.fail("I22b, tick %d: %d pods of wave %d are at the newest revision, and at most %d may be before its gates open", now, pods, k, wave.Pods)
		}
		if wave.Clusters > 0 && busy > wave.Clusters && w.certain {
			w.fail("tick %d: %d clusters of wave %d are updated at the same time, and at most %d may be", now, busy, k, wave.Clusters)
		}
	}
}
