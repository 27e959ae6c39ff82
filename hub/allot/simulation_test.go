package allot_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/hub/allot"
)

// The simulation moves replicas between members that get grants late, twice, out of order or not at first, and whose reports are just as
// unreliable. After each tick it checks what really runs. The hub loses its memory at random moments, even between two writes of one plan:
// only the rows survive. The next hub may see each row as it was some time before that, until its cache has caught up.

// row is what is stored for one member: the grant, and the status that the member reported last.
type row struct {
	generation int
	grant      allot.Grant
	status     report
}

type report struct{ at, generation, available int }

// member runs what the newest grant that it has received says.
type member struct {
	generation, replicas, available int
	darkFrom, darkUntil             int
}

// message is on its way to or from a member.
type message struct {
	arrives              int
	generation, replicas int // to a member
	report               report
}

type world struct {
	random       *rand.Rand
	limits       allot.Limits
	barred       int // the maximum that was barred so far
	lost         int // how many are unallocated although no maximum excludes them
	ticks        int
	targets      []int
	members      []member
	rows         []row
	down, up     [][]message
	hubDownUntil int
	// A new hub sees views until behindUntil. impatient means that it plans with them, instead of waiting (placement.Fresh).
	views         []row
	behindUntil   int
	impatient     bool
	past          [][]row // the rows at the last ticks, newest last
	writes        int
	retargetAfter int
	// states are the states of the members at each plan, if targets are allocated with them. It is nil if targets are drawn.
	states []allot.State
}

type outcome int

const (
	converged outcome = iota
	tooFewAvailable
	tooManyRunning
	stuck
)

// darkAfter is how many ticks of silence count as an outage for the hub.
const darkAfter = 30

// planner is Transfer, or a wrong implementation.
type planner func(allot.Limits, []allot.Holding) []allot.Step

// planDirectly writes targets directly.
func planDirectly(_ allot.Limits, holdings []allot.Holding) []allot.Step {
	steps := make([]allot.Step, len(holdings))
	for i, h := range holdings {
		n := h.Target
		steps[i] = allot.Step{Grant: allot.Grant{Replicas: n, Upper: n, Lower: n}, Changed: n != h.Grant.Replicas}
	}
	return steps
}

// planUnacknowledged assumes that a member acts on its last grant.
func planUnacknowledged(l allot.Limits, holdings []allot.Holding) []allot.Step {
	holdings = slices.Clone(holdings)
	for i := range holdings {
		holdings[i].Acked = true
	}
	return allot.Transfer(l, holdings)
}

func newWorld(seed uint64, outages bool, lost int) *world {
	random := rand.New(rand.NewPCG(seed, 42))
	n, desired := 2+random.IntN(5), 1+random.IntN(40)
	w := &world{
		random: random,
		limits: allot.Limits{Desired: desired, MaxSurge: 1 + random.IntN(5), MaxUnavailable: random.IntN(5)},
		lost:   min(lost, desired), ticks: 6000,
		members: make([]member, n), rows: make([]row, n), down: make([][]message, n), up: make([][]message, n),
	}
	if random.IntN(4) == 0 {
		w.limits.MaxSurge, w.limits.MaxUnavailable = 0, 1+random.IntN(4)
	}
	if random.IntN(3) == 0 {
		w.retargetAfter = 1 + random.IntN(100)
	}
	for range desired {
		w.members[random.IntN(n)].replicas++
	}
	for i := range w.members {
		m := &w.members[i]
		m.available = m.replicas
		w.rows[i].grant = allot.Grant{Replicas: m.replicas, Upper: m.replicas, Lower: m.replicas}
		w.rows[i].status.available = m.replicas
		if outages && random.IntN(5) < 2 {
			m.darkFrom = random.IntN(120)
			m.darkUntil = m.darkFrom + 50 + random.IntN(450)
		}
	}
	w.retarget()
	return w
}

// retarget moves the same number of replicas elsewhere, and in every third world sets other maximums.
func (w *world) retarget() {
	if w.states != nil {
		w.taint()
		return
	}
	w.limits.Barred = 0
	if w.random.IntN(3) == 0 {
		w.limits.Barred = w.random.IntN(w.limits.Desired - w.lost + 1)
	}
	w.barred = max(w.barred, w.limits.Barred)
	var live []int
	for i := range w.members {
		if w.random.IntN(5) < 4 {
			live = append(live, i)
		}
	}
	if live == nil {
		live = []int{0}
	}
	w.targets = make([]int, len(w.members))
	for range w.limits.Desired - w.limits.Barred - w.lost {
		w.targets[live[w.random.IntN(len(live))]]++
	}
}

// taint closes some clusters, evicts from others, and leaves at least one as it is.
func (w *world) taint() {
	w.limits.Barred, w.barred = 0, 0
	w.states = make([]allot.State, len(w.members))
	for i := range w.states {
		w.states[i] = []allot.State{allot.Ready, allot.Closed, allot.Draining}[w.random.IntN(3)]
	}
	w.states[w.random.IntN(len(w.states))] = allot.Ready
}

// allocate sets the targets like a hub that reads these rows.
func (w *world) allocate(rows []row, dark func(i int) bool) {
	all := allot.Subset{Name: "all"}
	for i, r := range rows {
		m := allot.Member{Cluster: fmt.Sprintf("c%d", i), Current: r.grant.Replicas, State: w.states[i]}
		if dark(i) {
			m.State = allot.Frozen
		}
		all.Members = append(all.Members, m)
	}
	for i, t := range allot.Allocate(w.limits.Desired, []allot.Subset{all}).Targets {
		w.targets[i] = t.Replicas
	}
}

func (w *world) dark(i, now int) bool {
	return w.members[i].darkFrom <= now && now < w.members[i].darkUntil
}

// hub reads rows, plans, and writes what it can before it stops.
func (w *world) hub(now int, plan planner) {
	if w.past = append(w.past, slices.Clone(w.rows)); len(w.past) > 20 {
		w.past = w.past[1:]
	}
	rows := w.rows
	if now < w.behindUntil {
		rows = w.views
	}
	if now < w.hubDownUntil || now < w.behindUntil && !w.impatient {
		return
	}
	dark := func(i int) bool { return w.dark(i, now) && w.dark(i, max(now-darkAfter, 0)) }
	if w.states != nil {
		w.allocate(rows, dark)
	}
	holdings := make([]allot.Holding, len(rows))
	for i, r := range rows {
		holdings[i] = allot.Holding{
			Key: allot.Key{Cluster: fmt.Sprintf("c%d", i)}, Target: w.targets[i], Grant: r.grant,
			Acked: r.status.generation == r.generation, Available: r.status.available,
			Dark: dark(i),
		}
	}
	steps := plan(w.limits, holdings)
	for _, i := range w.random.Perm(len(steps)) {
		if !steps[i].Changed {
			continue
		}
		if w.random.IntN(50) == 0 {
			w.hubDownUntil = now + w.random.IntN(30)
			w.behindUntil = w.hubDownUntil + w.random.IntN(20)
			w.views = slices.Clone(w.rows)
			for i := range w.views {
				w.views[i] = w.past[w.random.IntN(len(w.past))][i]
			}
			return
		}
		r := &w.rows[i]
		if r.generation != rows[i].generation {
			continue // This is a conflict.
		}
		r.generation++
		r.grant = steps[i].Grant
		w.writes++
		w.send(i, now, message{generation: r.generation, replicas: r.grant.Replicas})
	}
}

// send delivers a grant after 1 to 15 ticks, and one in twenty a second time.
func (w *world) send(i, now int, m message) {
	m.arrives = now + 1 + w.random.IntN(15)
	w.down[i] = append(w.down[i], m)
	if w.random.IntN(20) == 0 {
		m.arrives += w.random.IntN(40)
		w.down[i] = append(w.down[i], m)
	}
}

// deliver removes the messages that have arrived. Those of a dark member wait.
func (w *world) deliver(queue *[]message, i, now int) []message {
	if w.dark(i, now) {
		return nil
	}
	var arrived, waiting []message
	for _, m := range *queue {
		if m.arrives <= now {
			arrived = append(arrived, m)
		} else {
			waiting = append(waiting, m)
		}
	}
	*queue = waiting
	return arrived
}

// act lets one member receive, run and report.
func (w *world) act(i, now int) {
	m := &w.members[i]
	for _, g := range w.deliver(&w.down[i], i, now) {
		switch {
		case w.random.IntN(10) == 0: // It is lost, and sent again later.
			g.arrives = now + 20
			w.down[i] = append(w.down[i], g)
		case g.generation > m.generation:
			m.generation, m.replicas = g.generation, g.replicas
		}
	}
	if m.available > m.replicas {
		m.available = m.replicas
	} else if m.available < m.replicas && w.random.IntN(10) < 3 {
		m.available++
	}
	if w.random.IntN(5) == 0 {
		w.up[i] = append(w.up[i], message{
			arrives: now + 1 + w.random.IntN(20),
			report:  report{at: now, generation: m.generation, available: m.available},
		})
	}
}

// run simulates until all targets are reached, and returns how long that took.
func (w *world) run(plan planner) (outcome, int) {
	least := w.limits.Desired - w.limits.MaxUnavailable
	if w.lost > 0 { // maxUnavailable applies to moves, not to losses
		least = w.limits.Desired
	}
	for now := range w.ticks {
		if now == w.retargetAfter {
			w.retarget()
		}
		for i := range w.rows {
			for _, m := range w.deliver(&w.up[i], i, now) {
				if m.report.at > w.rows[i].status.at {
					w.rows[i].status = m.report
				}
			}
		}
		w.hub(now, plan)
		available, running, arrived := 0, 0, now >= w.retargetAfter
		for i := range w.members {
			w.act(i, now)
			m := w.members[i]
			available, running = available+m.available, running+m.replicas
			arrived = arrived && m.available == w.targets[i] && w.rows[i].grant.Replicas == w.targets[i]
		}
		switch {
		case available < least-w.barred:
			return tooFewAvailable, now
		case running > w.limits.Desired+w.limits.MaxSurge:
			return tooManyRunning, now
		case arrived:
			return converged, now
		}
	}
	return stuck, 0
}

// play simulates many worlds and counts how they end.
func play(t *testing.T, name string, runs uint64, outages, impatient bool, plan planner) map[outcome]int {
	t.Helper()
	ends := map[outcome]int{}
	var ticks []int
	for seed := range runs {
		w := newWorld(seed, outages, 0)
		w.impatient = impatient
		end, now := w.run(plan)
		ends[end]++
		if end == converged {
			ticks = append(ticks, now)
		}
	}
	if slices.Sort(ticks); len(ticks) > 0 {
		t.Logf("%s: %d runs, %d converged, %d below availability, %d above surge, %d stuck; ticks p50 %d p99 %d",
			name, runs, ends[converged], ends[tooFewAvailable], ends[tooManyRunning], ends[stuck],
			ticks[len(ticks)/2], ticks[len(ticks)*99/100])
	}
	return ends
}

func TestSimulatedTransfers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		runs      uint64
		outages   bool
		impatient bool
		plan      planner
		safe      bool
	}{
		{"I3 and I4 hold with delay, loss, reordering and restarts of the hub", 4000, false, false, allot.Transfer, true},
		{"I3 and I4 hold with members that do not answer for some time", 4000, true, false, allot.Transfer, true},
		{"writing targets directly breaks them", 1000, true, false, planDirectly, false},
		{"treating grants as acknowledged breaks them", 1000, true, false, planUnacknowledged, false},
		{"planning with a cache that is older than the writes of the previous hub breaks them", 4000, true, true, allot.Transfer, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ends := play(t, c.name, c.runs, c.outages, c.impatient, c.plan)
			if c.safe {
				require.Equal(t, map[outcome]int{converged: int(c.runs)}, ends)
				return
			}
			require.Positive(t, ends[tooFewAvailable]+ends[tooManyRunning], "a wrong planner must fail, or the simulation proves nothing")
		})
	}
}

// I5: replicas that are lost, and not barred, are kept for as long as they run.
func TestSimulatedLossesShrinkNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWorld(seed, true, 1+int(seed%7))
		w.ticks = 1500
		end, now := w.run(allot.Transfer)
		require.NotContains(t, []outcome{tooFewAvailable, tooManyRunning}, end, "seed %d, tick %d", seed, now)
	}
	careless := func(l allot.Limits, holdings []allot.Holding) []allot.Step {
		l.Barred = l.Desired
		return allot.Transfer(l, holdings)
	}
	w := newWorld(1, true, 4)
	end, _ := w.run(careless)
	require.Equal(t, tooFewAvailable, end, "a wrong planner must fail, or the simulation proves nothing")
}

// Taints that come and go move replicas, but violate neither limit: I3, I4. In the end no cluster that evicts has any replicas.
func TestSimulatedTaints(t *testing.T) {
	t.Parallel()
	broken := 0
	for seed := range uint64(2000) {
		w := newWorld(seed, true, 0)
		w.taint()
		end, now := w.run(allot.Transfer)
		require.Equal(t, converged, end, "seed %d, tick %d", seed, now)
		for i, state := range w.states {
			m := w.members[i] // A member that doesn't answer keeps its number.
			require.False(t, state == allot.Draining && m.darkUntil == 0 && m.replicas > 0, "seed %d, member %d", seed, i)
		}
		w = newWorld(seed, true, 0)
		w.taint()
		if end, _ := w.run(planDirectly); end == tooFewAvailable || end == tooManyRunning {
			broken++
		}
	}
	require.Positive(t, broken, "a wrong planner must fail, or the simulation proves nothing")
}

// I8: when a transfer is complete and every member has reported it, the hub writes nothing more.
func TestSimulatedTransfersComeToRest(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		w := newWorld(seed, true, 0)
		end, now := w.run(allot.Transfer)
		require.Equal(t, converged, end, "seed %d", seed)
		writes := w.writes
		for later := now + 1; later < now+600; later++ {
			for i := range w.rows {
				for _, m := range w.deliver(&w.up[i], i, later) {
					if m.report.at > w.rows[i].status.at {
						w.rows[i].status = m.report
					}
				}
				w.act(i, later)
			}
			w.hub(later, allot.Transfer)
		}
		require.Equal(t, writes, w.writes, "seed %d", seed)
		for i, r := range w.rows {
			require.Equal(t, r.generation, r.status.generation, "seed %d, member %d", seed, i)
			require.Equal(t, w.targets[i], w.members[i].available, "seed %d, member %d", seed, i)
		}
	}
}
