package rollout_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/rollout"
)

// The simulation runs Transfer and Next like a hub does, against members that get rows late, twice or not at first, and whose reports are just
// as unreliable. The hub stops at random moments, even between two writes of one plan: only the rows survive. Each begin of an update is
// checked, and in the end everything must be at the revision that is rolled out, and nothing more be written.

// event is what a user or a cluster does.
type event int

const (
	template event = iota
	rollback
	fewer // a lower budget
	more  // a higher budget
	raise // the partition
	lower // the partition
	pause
	resume
	move
	scale
	join
	leave
	approve // the wave that is waiting, or any other
	relabel // a cluster belongs to another wave
	events
)

// A change of one of these is in force once each member has acknowledged a row that was planned after it.
const (
	ofBudget = iota
	ofPause
	ofRevision
	concerns
)

// cause is why a pod is not available.
type cause int

const (
	created cause = iota
	updated
	failed
)

type pod struct {
	revision  int
	available bool
	cause     cause
}

// order is what a row says about a subset, and what the hub stores about it.
type order struct {
	allot    allot.Grant
	rollout  rollout.Grant
	replicas int
}

type counts struct{ pods, available, updated, updatedAvailable int }

type report struct {
	at, generation int
	counts         []counts
}

// row is the row of a cluster. With a generation of 0 the cluster has no row.
type row struct {
	generation, content int
	orders              []order
	status              report
	// contents are all contents that it had.
	contents []int
}

// message is a row on its way to a member, or a report on its way back.
type message struct {
	arrives             int
	generation, content int
	orders              []order
	report              report
}

type member struct {
	row        row
	targets    []int
	down, up   []message
	generation int // What it acts on.
	content    int
	former     int // The revision of pods that a partition keeps, or -1 if the member had no other.
	orders     []order
	pods       [][]pod

	wave                 int
	darkFrom, darkUntil  int
	whole, leaving, gone bool
	// pending is true until the member acts on a row that was planned after a change. reached is true once such a plan could write the row.
	pending, reached [concerns]bool
}

const unlimited = math.MaxInt / 2

// planner is Next, or a wrong implementation.
type planner func(rollout.Limits, []rollout.Part) rollout.Result

type world struct {
	random                                           *rand.Rand
	plan                                             planner
	desired, budget, partition, reallocation, subset int
	paused, skip, failures, forgets                  bool
	target, former, revisions                        int
	broken                                           map[int]bool
	members                                          []*member
	schedule                                         map[int][]event
	last                                             int // The tick of the last event.

	gates gates

	hubDownUntil int
	dirty        bool
	planned      [concerns]bool
	writes       int

	// available and voluntary are how many pods are available, and unavailable because of their update.
	available, voluntary int
	// bound is what the last plan said about unavailable pods, and newest how many pods may be at the newest revision.
	bound, newest int
	// spent is what the last plan said about unavailable pods.
	spent int
	// forced is how many pods were created at the newest revision because their workload has no other.
	forced int
	// back is true after a rollback: pods that a partition has kept are at the newest revision, and are not reported as such.
	back bool
	// took is true if a member has made an available pod unavailable, or deleted it.
	took bool
	// settled is true if nothing keeps the rollout from being complete.
	settled bool
	// owing is true if there was a new template while more pods than a lowered budget were unavailable. Some of them may then be replaced by
	// others, because Next can't tell them from pods that fail.
	owing bool
	// ceiling is the largest budget that may be in force. calm means that no pod is unavailable for another reason than an update or a move.
	ceiling       int
	calm, certain bool
	broke         string
	log           func(format string, args ...any)
}

// options say what happens in a world.
type options struct {
	events           []event
	failures, dark   bool
	broken, transfer bool
	waves            bool
}

func anything() options {
	o := options{failures: true, dark: true, broken: true, transfer: true, waves: true}
	for e := range events {
		o.events = append(o.events, e)
	}
	return o
}

func newWorld(seed uint64, o options, plan planner) *world {
	random := rand.New(rand.NewPCG(seed, 22))
	some := func(of int) bool { return random.IntN(of) == 0 }
	w := &world{
		random: random, plan: plan, subset: 1, budget: 1 + random.IntN(6), revisions: 1,
		broken: map[int]bool{}, schedule: map[int][]event{}, dirty: true, forgets: some(2),
		failures: o.failures && some(3), skip: some(3), bound: math.MaxInt, newest: unlimited, calm: true, certain: true,
	}
	if some(8) {
		w.budget = 1 + random.IntN(40)
	}
	if o.transfer && some(2) {
		w.reallocation = random.IntN(w.budget)
	}
	if some(4) {
		w.subset = 2
	}
	w.broken[-1] = o.broken && some(2) // Templates may be broken.
	w.broken[0] = o.broken && some(6)
	limited := some(2)
	for range 2 + random.IntN(4) {
		m := w.join()
		m.whole = some(6)
		m.row.generation, m.generation, m.row.contents = 1, 1, []int{0}
		for s := range w.subset {
			n := random.IntN(8)
			m.targets[s] = n
			w.desired += n
			m.orders[s] = order{replicas: n, allot: allot.Grant{Replicas: n, Upper: n, Lower: n}}
			m.orders[s].rollout = rollout.Grant{Bounded: limited, UpdatedUpper: n}
			for range n {
				m.pods[s] = append(m.pods[s], pod{available: !w.broken[0], cause: failed})
			}
			if !w.broken[0] {
				w.available += n
			}
		}
		m.row.orders = slices.Clone(m.orders)
		m.row.status = w.reportOf(m, 0)
		if o.dark && some(6) {
			m.darkFrom = random.IntN(100)
			m.darkUntil = m.darkFrom + 20 + random.IntN(150)
			w.calm, w.certain = w.calm && !w.skip, w.certain && !w.skip
		}
	}
	w.ceiling = w.budget
	w.calm = w.calm && !w.broken[0] && !w.failures
	w.certain = w.certain && !w.failures && !w.broken[-1] && !w.broken[0]
	if some(3) {
		w.partition = random.IntN(w.desired + 1)
	}
	if o.waves && some(2) {
		w.draw()
	}
	w.schedule[1] = []event{template}
	for range random.IntN(5) {
		if len(o.events) == 0 {
			break
		}
		w.last = 2 + random.IntN(200)
		w.schedule[w.last] = append(w.schedule[w.last], o.events[random.IntN(len(o.events))])
	}
	for at, list := range w.schedule {
		w.last = max(w.last, at)
		if slices.Contains(list, scale) || slices.Contains(list, fewer) {
			w.calm = false
		}
		w.gates.plain = w.gates.plain && !slices.ContainsFunc(list, func(e event) bool {
			return e == template && at > 1 || e == rollback || e == scale || e == move || e == join || e == leave || e == relabel
		})
	}
	for _, m := range w.members {
		w.last = max(w.last, m.darkUntil)
	}
	return w
}

func (w *world) join() *member {
	m := &member{
		former: -1, targets: make([]int, w.subset), orders: make([]order, w.subset), pods: make([][]pod, w.subset),
	}
	m.row.orders = make([]order, w.subset)
	m.row.status = report{at: -1, counts: make([]counts, w.subset)}
	w.members = append(w.members, m)
	return m
}

func (w *world) fail(format string, args ...any) {
	if w.broke == "" {
		w.broke = fmt.Sprintf(format, args...)
	}
}

// changed notes that members still act on what was planned before.
func (w *world) changed(concern int) {
	w.planned[concern] = false
	if concern == ofRevision {
		w.newest = unlimited
	}
	for _, m := range w.members {
		m.pending[concern], m.reached[concern] = !m.gone && m.row.generation > 0, false
	}
}

func (w *world) inForce(concern int) bool {
	return w.planned[concern] && !slices.ContainsFunc(w.members, func(m *member) bool { return m.pending[concern] })
}

// forget makes pods that an earlier rollout of the same revision made unavailable look like others that fail, as they do to Next.
func (w *world) forget() {
	for _, m := range w.members {
		for _, pods := range m.pods {
			for i := range pods {
				if p := &pods[i]; !w.certain && !p.available && p.cause == updated && p.revision == w.target {
					p.cause = failed
					w.voluntary--
				}
			}
		}
	}
}

// delivered reports whether each member acts on its last row. A plan may take back a budget in one cluster while another row, which takes it
// back elsewhere, is on its way.
func (w *world) delivered() bool {
	return !slices.ContainsFunc(w.members, func(m *member) bool { return !m.gone && m.generation != m.row.generation })
}

// sized reports whether each member has as many pods as its row says. A row that was planned before a change may still let it create some.
func (w *world) sized() bool {
	return !slices.ContainsFunc(w.members, func(m *member) bool {
		for s, pods := range m.pods {
			if !m.gone && len(pods) != m.orders[s].replicas {
				return true
			}
		}
		return false
	})
}

func (w *world) happen(e event) {
	if w.log != nil {
		w.log("event %d", e)
	}
	w.dirty, w.bound = true, math.MaxInt
	switch e {
	case template:
		w.former, w.target = w.target, w.revisions
		w.broken[w.target] = w.broken[-1] && w.random.IntN(3) == 0
		w.revisions++
		w.back, w.forced = false, 0
		w.owing = w.owing || w.voluntary > w.budget-w.reallocation
		w.changed(ofRevision)
	case rollback:
		w.back = true
		w.owing = w.owing || w.voluntary > w.budget-w.reallocation
		w.former, w.target = w.target, w.former
		w.forget()
		w.changed(ofRevision)
	case fewer:
		w.budget = max(w.reallocation+w.random.IntN(max(w.budget-w.reallocation, 1)), 1)
		w.changed(ofBudget)
	case more:
		w.budget += 1 + w.random.IntN(4)
		w.ceiling = max(w.ceiling, w.budget)
	case raise:
		w.partition = min(w.partition+1+w.random.IntN(w.desired+1), w.desired)
		w.changed(ofRevision)
	case lower:
		w.partition = w.random.IntN(w.partition + 1)
		w.changed(ofRevision)
	case pause:
		w.paused = true
		w.changed(ofPause)
	case resume:
		w.paused = false
	case scale:
		w.desired = w.random.IntN(2*w.desired + 2)
		w.retarget()
		w.changed(ofRevision)
	case join:
		m := w.join()
		m.whole = len(w.gates.waves) == 0 && w.random.IntN(6) == 0
		m.wave = w.random.IntN(max(len(w.gates.waves), 1))
		w.retarget()
		w.changed(ofRevision)
	case leave:
		w.members[w.random.IntN(len(w.members))].leaving = true
		w.retarget()
		w.changed(ofRevision)
	case approve:
		w.approve(w.random.IntN(max(len(w.gates.waves), 1)))
	case relabel:
		if m := w.members[w.random.IntN(len(w.members))]; len(w.gates.waves) > 0 && !m.whole {
			m.wave = w.random.IntN(len(w.gates.waves))
		}
		w.changed(ofRevision)
	case move, events:
		w.retarget()
		w.changed(ofRevision)
	}
}

// settle ends all that keeps a rollout from being complete.
func (w *world) settle() {
	w.dirty, w.paused, w.partition, w.failures = true, false, 0, false
	w.budget = max(w.budget, w.reallocation+1)
	w.ceiling = max(w.ceiling, w.budget)
	if w.broken[w.target] {
		w.happen(template)
		w.broken[w.target] = false
	}
	w.gates.approving = true
	w.changed(ofRevision)
}

// retarget divides the replicas anew over clusters that stay.
func (w *world) retarget() {
	var live []*member
	for _, m := range w.members {
		for s := range m.targets {
			m.targets[s] = 0
		}
		if !m.leaving {
			live = append(live, m)
		}
	}
	if live == nil {
		w.members[0].leaving = false
		live = w.members[:1]
		w.members[0].gone = false
	}
	for range w.desired {
		live[w.random.IntN(len(live))].targets[w.random.IntN(w.subset)]++
	}
}

func (m *member) silent(now int) bool { return m.darkFrom <= now && now < m.darkUntil }

// dark reports whether the hub has noticed that a member is silent.
func (m *member) dark(now int) bool { return m.silent(now) && m.silent(max(now-10, 0)) }

func (w *world) limits() rollout.Limits {
	first := w.revisions == 1
	for _, m := range w.members {
		first = first && !slices.ContainsFunc(m.row.contents, func(c int) bool { return c != w.target })
	}
	return rollout.Limits{
		Desired: w.desired, MaxUnavailable: w.budget - w.reallocation, Partition: w.partition, Paused: w.paused, SkipStale: w.skip, First: first,
		Open: math.MaxInt,
	}
}

// hub plans, and writes what it can before it stops.
func (w *world) hub(now int) {
	for _, m := range w.members {
		w.dirty = w.dirty || !m.gone && (now == m.darkFrom+10 || now == m.darkUntil)
	}
	w.watchGates(now)
	if now < w.hubDownUntil || !w.dirty {
		return
	}
	w.dirty = false
	var live []*member
	var holdings []allot.Holding
	for i, m := range w.members {
		r := &m.row
		acked := r.status.generation == r.generation
		if m.leaving && acked && !slices.ContainsFunc(r.status.counts, func(c counts) bool { return c.pods > 0 }) &&
			!slices.ContainsFunc(r.orders, func(o order) bool { return o.replicas > 0 }) {
			m.gone = true
			m.pending = [concerns]bool{}
		}
		if m.gone {
			continue
		}
		live = append(live, m)
		for s, o := range r.orders {
			holdings = append(holdings, allot.Holding{
				Key: allot.Key{Subset: "s" + strconv.Itoa(s), Cluster: "c" + strconv.Itoa(i)}, Target: m.targets[s], Grant: o.allot,
				Acked: acked, Available: r.status.counts[s].available, Dark: m.dark(now),
			})
		}
	}
	steps := allot.Transfer(allot.Limits{Desired: w.desired, MaxSurge: 2, MaxUnavailable: w.reallocation}, holdings)
	parts := make([]rollout.Part, len(holdings))
	for i, h := range holdings {
		m, s := live[i/w.subset], i%w.subset
		c := m.row.status.counts[s]
		parts[i] = rollout.Part{
			Key: h.Key, Wave: m.wave, Replicas: steps[i].Replicas, Sent: h.Grant.Replicas, Upper: steps[i].Upper, Grant: m.row.orders[s].rollout,
			Current: m.row.generation > 0 && m.row.content == w.target, New: m.row.generation == 0, Acked: h.Acked, Dark: h.Dark,
			Whole: m.whole, Leaving: h.Target == 0, Pods: c.pods, Available: min(c.available, steps[i].Lower), Updated: c.updated, UpdatedAvailable: c.updatedAvailable,
		}
	}
	l := w.limits()
	progress := w.advance(now, &l, parts)
	result := w.plan(l, parts)
	w.bound, w.spent = result.Bound, result.Spent
	w.trace(now, l, parts, result)
	held := l
	held.Paused = true
	if b := rollout.Next(held, parts).Bound; result.Bound > max(b, l.MaxUnavailable) {
		w.fail("tick %d: the exposures add up to %d, before the step to %d, and the budget is %d", now, result.Bound, b, l.MaxUnavailable)
	}
	for _, i := range w.random.Perm(len(live)) {
		if w.random.IntN(200) == 0 {
			w.hubDownUntil = now + w.random.IntN(30)
			w.dirty, w.gates.remembers = true, false
			return
		}
		w.write(live[i], now, steps[i*w.subset:][:w.subset], result.Steps[i*w.subset:][:w.subset])
	}
	w.save(now, progress)
	w.planned = [concerns]bool{true, true, true}
	for i, step := range result.Steps { // A lower budget is not in force before everything beyond it was taken back.
		if was, now := parts[i].Grant.MaxUnavailable, step.Grant.MaxUnavailable; was != nil && now != nil && *now < *was {
			w.planned[ofBudget] = false
		}
	}
	for _, m := range live {
		if !m.dark(now) {
			m.reached = [concerns]bool{true, true, true}
		}
	}
}

// trace logs what a plan starts from and what it grants.
func (w *world) trace(now int, l rollout.Limits, parts []rollout.Part, result rollout.Result) {
	if w.log == nil {
		return
	}
	show := func(g rollout.Grant) string {
		most := "-"
		if g.MaxUnavailable != nil {
			most = strconv.Itoa(*g.MaxUnavailable)
		}
		return fmt.Sprintf("partition %d, most %s, upper %d %d", g.Partition, most, g.UnavailableUpper, g.UpdatedUpper)
	}
	w.log("tick %d: %+v spent %d bound %d left %d %v; really available %d voluntary %d newest %d of %d", now, l, result.Spent, result.Bound, result.Left,
		result.Waits, w.available, w.voluntary, w.atTarget(), w.newest)
	for i, p := range parts {
		w.log("  %v wave %d %d (was %d <= %d) current %v acked %v dark %v whole %v leaving %v pods %d %d %d %d: %s -> current %v %s", p.Key, p.Wave, p.Replicas, p.Sent,
			p.Upper, p.Current, p.Acked, p.Dark, p.Whole, p.Leaving, p.Pods, p.Available, p.Updated, p.UpdatedAvailable, show(p.Grant),
			result.Steps[i].Current, show(result.Steps[i].Grant))
	}
}

func same(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// write writes a row if its numbers or its content change.
func (w *world) write(m *member, now int, moves []allot.Step, steps []rollout.Step) {
	r := &m.row
	content := w.former
	if steps[0].Current {
		content = w.target
	} else if r.generation > 0 {
		content = r.content
	}
	write := r.generation == 0 || content != r.content
	for s, o := range r.orders {
		write = write || moves[s].Replicas != o.replicas || steps[s].Grant.Partition != o.rollout.Partition ||
			!same(steps[s].Grant.MaxUnavailable, o.rollout.MaxUnavailable)
		if steps[s].Current != steps[0].Current {
			w.fail("tick %d: the subsets of a cluster have different contents", now)
		}
	}
	if !write {
		return
	}
	if m.dark(now) {
		w.fail("tick %d: a cluster that doesn't answer is written", now)
	}
	if content == w.target && r.generation > 0 && content != r.content && !w.mayBegin(m.wave) {
		w.fail("I23, tick %d: a cluster of wave %d gets the new content, and the gates of the wave before have not opened", now, m.wave)
	}
	if r.generation == 0 && content == w.target && !w.limits().First {
		w.joins(now, moves)
	}
	r.generation++
	r.content = content
	r.contents = append(r.contents, content)
	r.orders = make([]order, w.subset)
	for s := range r.orders {
		r.orders[s] = order{replicas: moves[s].Replicas, allot: moves[s].Grant, rollout: steps[s].Grant}
	}
	w.writes++
	w.dirty = true
	sent := message{arrives: now + 1 + w.random.IntN(6), generation: r.generation, content: content, orders: r.orders}
	m.down = append(m.down, sent)
	if w.random.IntN(20) == 0 {
		sent.arrives += w.random.IntN(20)
		m.down = append(m.down, sent)
	}
}

// joins checks that a cluster that joins may get the revision that is rolled out.
func (w *world) joins(now int, moves []allot.Step) {
	more := 0
	for _, s := range moves {
		more += s.Replicas
	}
	pods := w.atTarget() - w.forced + more
	if more > 0 && (w.paused || w.partition > 0 && !w.back && pods > max(w.desired-w.partition, 0)) {
		w.fail("I22b, tick %d: a cluster that joins gets the newest revision, of which there would be %d pods, paused %v", now, pods, w.paused)
	}
}

// arrived removes the messages that have arrived. Those of a silent member wait.
func (w *world) arrived(queue *[]message, m *member, now int) []message {
	if m.silent(now) || len(*queue) == 0 {
		return nil
	}
	var arrived, waiting []message
	for _, message := range *queue {
		if message.arrives <= now {
			arrived = append(arrived, message)
		} else {
			waiting = append(waiting, message)
		}
	}
	*queue = waiting
	return arrived
}

func (w *world) reportOf(m *member, now int) report {
	out := report{at: now, generation: m.generation}
	for _, pods := range m.pods {
		c := counts{pods: len(pods)}
		for _, p := range pods {
			if p.available {
				c.available++
			}
			if p.revision == m.content {
				c.updated++
			}
			if p.revision == m.content && p.available {
				c.updatedAvailable++
			}
		}
		out.counts = append(out.counts, c)
	}
	return out
}

// act lets one member receive, run and report.
func (w *world) act(m *member, now int) {
	for _, g := range w.arrived(&m.down, m, now) {
		if w.random.IntN(10) == 0 { // It is lost, and sent again later.
			g.arrives = now + 8
			m.down = append(m.down, g)
		} else if g.generation > m.generation {
			if m.content != g.content && m.generation > 0 {
				m.former = m.content
			}
			m.generation, m.content, m.orders = g.generation, g.content, g.orders
		}
	}
	for c := range m.pending {
		m.pending[c] = m.pending[c] && (!m.reached[c] || m.generation != m.row.generation)
	}
	if w.inForce(ofBudget) && w.delivered() && !w.owing {
		w.ceiling = w.budget
	}
	if !w.inForce(ofRevision) {
		w.newest = unlimited
	} else if w.newest == unlimited && w.sized() && w.delivered() {
		w.newest = max(w.desired-w.partition, w.atTarget()-w.forced)
	}
	if w.took = false; m.generation > 0 {
		for s := range m.pods {
			w.resize(m, s)
			w.update(m, s, now)
			w.recover(m, s)
		}
	}
	if n := w.atTarget(); w.partition > 0 && !w.back && n > w.newest+w.forced {
		w.fail("I22b, tick %d: %d pods are at the newest revision, and at most %d may be", now, n, w.newest+w.forced)
	}
	w.checkWaves(now)
	if w.took && w.calm && w.desired-w.available > w.ceiling {
		w.fail("I47, tick %d: %d of %d pods are available, and the budget is %d", now, w.available, w.desired, w.ceiling)
	}
	if m.generation > 0 && w.random.IntN(3) == 0 {
		m.up = append(m.up, message{arrives: now + 1 + w.random.IntN(8), report: w.reportOf(m, now)})
	}
}

func (w *world) atTarget() int {
	n := 0
	for _, m := range w.members {
		for _, pods := range m.pods {
			for _, p := range pods {
				if p.revision == w.target {
					n++
				}
			}
		}
	}
	return n
}

// resize deletes pods, first those that are not available, or creates some.
func (w *world) resize(m *member, s int) {
	o, pods := m.orders[s], m.pods[s]
	for len(pods) > o.replicas {
		i := slices.IndexFunc(pods, func(p pod) bool { return !p.available })
		if i < 0 {
			i = w.random.IntN(len(pods))
		}
		w.lose(&pods[i], failed)
		if pods[i].cause == updated {
			w.voluntary--
		}
		pods = slices.Delete(pods, i, i+1)
	}
	for len(pods) < o.replicas {
		at, isUpdated := m.content, func(p pod) bool { return p.revision == m.content }
		old := slices.IndexFunc(pods, func(p pod) bool { return !isUpdated(p) })
		n := 0
		for _, p := range pods {
			if isUpdated(p) {
				n++
			}
		}
		switch {
		case m.whole && old >= 0 && w.random.IntN(2) == 0:
			at = pods[old].revision
		case !m.whole && n >= o.replicas-o.rollout.Partition && old >= 0:
			at = pods[old].revision
		case !m.whole && n >= o.replicas-o.rollout.Partition && m.former >= 0 && !w.forgets:
			at = m.former
		}
		if at == w.target && (m.whole || n >= o.replicas-o.rollout.Partition) {
			w.forced++ // It can't be at another revision.
		}
		pods = append(pods, pod{revision: at})
	}
	m.pods[s] = pods
}

// lose makes a pod unavailable.
func (w *world) lose(p *pod, why cause) {
	if p.available {
		w.took = true
		w.available--
		p.available, p.cause = false, why
	}
}

// update begins to update pods, as a CloneSet does.
func (w *world) update(m *member, s, now int) {
	o, pods := m.orders[s], m.pods[s]
	most, limit := o.replicas-o.rollout.Partition, o.replicas
	if m.whole {
		most = o.replicas
	}
	if o.rollout.MaxUnavailable != nil {
		limit = *o.rollout.MaxUnavailable
	} else if m.row.contents[0] == m.content && len(m.row.contents) == 1 {
		return
	}
	for limit > 0 && w.random.IntN(4) > 0 {
		available, done, waiting := 0, 0, 0
		broken, serving := -1, -1
		for i, p := range pods {
			switch {
			case p.revision == m.content:
				done++
				if !p.available {
					waiting++
				}
			case p.available:
				serving = i
			default:
				broken = i
			}
			if p.available {
				available++
			}
		}
		if done >= most || waiting >= limit {
			return
		}
		if broken >= 0 {
			pods[broken].revision = m.content
			continue
		}
		if serving < 0 || available-1 < o.replicas-limit {
			return
		}
		w.lose(&pods[serving], updated)
		pods[serving].revision = m.content
		w.voluntary++
		w.begun(now)
	}
}

// begun checks the limits when a member has begun to update an available pod.
func (w *world) begun(now int) {
	switch {
	case w.paused && w.inForce(ofPause):
		w.fail("tick %d: an update begins after all members acknowledged the pause", now)
	case w.caused() > w.ceiling-w.reallocation:
		w.fail("I22a, tick %d: %d pods are unavailable because of their update, and the budget is %d - %d", now, w.caused(), w.ceiling, w.reallocation)
	case w.certain && w.desired-w.available > w.bound:
		w.fail("I22a, tick %d: %d of %d pods are available, and at most %d may be missing according to the plan", now, w.available, w.desired, w.bound)
	}
}

// caused is how many pods are unavailable because of their update. If pods fail, pods of an earlier revision don't count: Next can't distinguish
// those that an update made unavailable from others.
func (w *world) caused() int {
	if w.certain {
		return w.voluntary
	}
	n := 0
	for _, m := range w.members {
		for _, pods := range m.pods {
			for _, p := range pods {
				if !p.available && p.cause == updated && p.revision == w.target {
					n++
				}
			}
		}
	}
	return n
}

// recover makes pods available again, unless their revision is broken, and lets some fail.
func (w *world) recover(m *member, s int) {
	for i := range m.pods[s] {
		p := &m.pods[s][i]
		switch {
		case !p.available && !w.broken[p.revision] && w.random.IntN(4) == 0:
			p.available = true
			w.available++
			if p.cause == updated {
				w.voluntary--
			}
			p.cause = created
		case p.available && w.failures && w.random.IntN(100) == 0:
			w.lose(p, failed)
		}
	}
}

// tick lets a unit of time pass.
func (w *world) tick(now int) {
	for _, m := range w.members {
		for _, arrived := range w.arrived(&m.up, m, now) {
			if arrived.report.at > m.row.status.at {
				w.dirty = w.dirty || arrived.report.generation != m.row.status.generation || !slices.Equal(arrived.report.counts, m.row.status.counts)
				m.row.status = arrived.report
			}
		}
	}
	w.hub(now)
	for _, m := range w.members {
		if !m.gone {
			w.act(m, now)
		}
	}
}

// complete reports whether all pods are where and what they should be, and the hub knows.
func (w *world) complete() bool {
	for _, m := range w.members {
		if m.gone {
			continue
		}
		if m.row.generation == 0 || m.row.status.generation != m.row.generation || m.leaving {
			return false
		}
		for s, pods := range m.pods {
			n := m.targets[s]
			if m.row.orders[s].replicas != n || len(pods) != n || m.row.status.counts[s] != (counts{n, n, n, n}) {
				return false
			}
			for _, p := range pods {
				if p.revision != w.target || !p.available {
					return false
				}
			}
		}
	}
	return true
}

// run simulates until the rollout is complete and returns how long that took. The second result says what went wrong.
func (w *world) run() (int, string) {
	done := 0
	for now := 1; now < w.last+4000 && w.broke == ""; now++ {
		for _, e := range w.schedule[now] {
			w.happen(e)
		}
		if now == w.last+20 && !w.settled {
			w.settle()
		}
		if now > w.last+300 && w.spent >= w.budget-w.reallocation {
			w.gates.waves, w.dirty = nil, true // Pods of later waves use up the budget until they are repaired: a user has to remove the waves.
		}
		w.tick(now)
		switch {
		case now <= w.last+20 || !w.complete():
			done = 0
		case done == 0:
			done = w.writes + 1
		}
		if done > 0 && w.complete() {
			return now, w.rest(now)
		}
	}
	if w.broke == "" {
		return 0, "it doesn't end"
	}
	return 0, w.broke
}

// rest checks that nothing more happens.
func (w *world) rest(now int) string {
	writes := w.writes
	for later := now + 1; later < now+25; later++ {
		w.dirty = true
		w.tick(later)
	}
	if w.writes > writes && w.broke == "" {
		return fmt.Sprintf("I48: %d rows are written after the rollout is complete", w.writes-writes)
	}
	return w.broke
}

// gate is how many random schedules run in the gate.
const gate = 3000

// schedules is how many random schedules a test runs.
func schedules() uint64 {
	if os.Getenv("FLOTILLA_TEST") == "all" {
		return 1_000_000
	}
	return gate
}

func TestI22SimulatedRollouts(t *testing.T) {
	t.Parallel()
	const shares = 8 // They run in parallel.
	for share := range uint64(shares) {
		t.Run(strconv.FormatUint(share, 10), func(t *testing.T) {
			t.Parallel()
			var ticks []int
			for seed := share; seed < schedules(); seed += shares {
				w := newWorld(seed, anything(), rollout.Next)
				end, broke := w.run()
				if broke != "" {
					t.Errorf("seed %d: %s", seed, broke)
					continue
				}
				ticks = append(ticks, end-w.last)
			}
			slices.Sort(ticks)
			require.NotEmpty(t, ticks)
			t.Logf("%d complete; ticks p50 %d p99 %d most %d", len(ticks), ticks[len(ticks)/2], ticks[len(ticks)*99/100], ticks[len(ticks)-1])
		})
	}
}
