package rollout

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "write the golden files")

// start is tick 0 of every replay; a tick is a second.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// model is a world in which steps come true: pods are scheduled, become ready, restart and go after some ticks.
type model struct {
	goal     Goal
	target   string                       // the revision that is rolled out
	previous string                       // the revision that creates with Old get
	noEdit   func(from, to string) string // why a pod can't be updated in place; nil: it always can
	quiet    func(from, to string) bool   // the update restarts nothing; nil: it always does
	bad      map[string]bool              // revisions whose containers never start
	gateless bool                         // pods have no readiness gate
	hooks    modelHooks                   // who has to let go of pods
	batches  int                          // writes that an update takes beyond the first
	grace    int                          // ticks that a marked pod drains
	free     bool                         // the place of a leaving pod is free at once
	slow     int                          // ticks until a container serves
	minReady int                          // ticks until a ready pod is available
	pods     map[string]*modelPod
	tick     int
	made     int
	story    strings.Builder // what a fuzz run did, told if it fails
}

// modelHooks are the hooks of a workload, and how they are served: pods are let go and taken up after slow ticks, or, if
// nobody cares, never.
type modelHooks struct{ update, remove, service, nobody bool }

type modelPod struct {
	rev     string
	slot    string
	edit    UpdateState
	doomed  bool
	parting bool
	off     bool // let go for an update and not taken up again
	gone    bool // let go for its deletion
	asked   int  // tick at which it was asked to be let go or taken up
	marked  int  // tick at which it was marked
	left    int  // writes of the update that are left
	serves  int  // tick at which the containers serve; never: -1
	ready   int  // tick since which the pod is ready; not ready: -1
	leaving int  // ticks until it is gone; 0: it stays
	rank    Rank
}

func newModel(g Goal, pods int) *model {
	m := &model{goal: g, target: "v1", previous: "v1", slow: 2, pods: map[string]*modelPod{}}
	for range pods {
		m.add("v1", UpdateNone)
	}
	for _, p := range m.pods {
		p.serves, p.ready = -100, -100
	}
	return m
}

func (m *model) add(rev string, e UpdateState) *modelPod {
	m.made++
	name := fmt.Sprintf("p%02d", m.made)
	p := &modelPod{rev: rev, edit: e, ready: -1, serves: m.serves(rev), rank: Rank{
		Assigned: true, Phase: corev1.PodRunning, Node: fmt.Sprintf("n%d", m.made%3), Created: m.at(m.tick),
	}}
	m.pods[name] = p
	return p
}

func (m *model) serves(rev string) int {
	if m.bad[rev] {
		return -1
	}
	return m.tick + m.slow
}

func (m *model) at(tick int) time.Time { return start.Add(time.Duration(tick) * time.Second) }

func (m *model) names() []string { return slices.Sorted(maps.Keys(m.pods)) }

// facts are the pods as Next sees them.
func (m *model) facts() []Pod {
	out := make([]Pod, 0, len(m.pods))
	for _, name := range m.names() {
		p := m.pods[name]
		if m.free && p.leaving > 0 {
			continue
		}
		f := Pod{
			Key: name, Slot: p.slot, Old: p.rev != m.target, Inactive: p.leaving > 0, ToDelete: p.doomed, Update: p.edit,
			Ready: p.ready != -1, Gated: !m.gateless, Rank: p.rank, PreparingDelete: p.parting,
			UpdateHooked: m.hooks.update && (!p.off || p.edit == UpdateAwaitingHook),
			DeleteHooked: m.hooks.remove && !p.gone,
		}
		if p.edit == UpdateNotReady && m.tick-p.marked < m.grace {
			f.Update = UpdateDraining
			f.ChangesAt = m.at(p.marked + m.grace)
		}
		if f.Ready {
			f.Rank.ReadySince = m.at(p.ready)
			inService := p.edit == UpdateNone && !p.parting
			f.Available = inService && m.tick-p.ready >= m.minReady
			if inService && !f.Available {
				f.ChangesAt = m.at(p.ready + m.minReady)
			}
		}
		if to := m.other(p); m.noEdit != nil {
			f.NotInPlace = m.noEdit(p.rev, to)
		}
		if to := m.other(p); m.quiet != nil {
			f.NoRestart = m.quiet(p.rev, to)
		}
		out = append(out, f)
	}
	return out
}

// other is the revision that a pod would go to.
func (m *model) other(p *modelPod) string {
	if p.rev == m.target {
		return m.previous
	}
	return m.target
}

func (m *model) apply(d Decision) {
	for _, s := range d.Steps {
		p := m.pods[s.Key]
		switch s.Kind {
		case StepPrepareDelete:
			p.parting, p.asked = true, m.tick
			if p.edit < UpdateNotReady {
				p.edit = UpdateNone
			}
		case StepCancelDelete:
			p.parting, p.gone = false, false
			if p.edit == UpdateNone {
				p.edit = m.service(p)
			}
		case StepPrepareUpdate:
			p.edit, p.off, p.asked = UpdatePreparing, false, m.tick
		case StepMarkUnready:
			p.edit, p.ready, p.marked = UpdateNotReady, -1, m.tick
		case StepUpdateInPlace:
			m.edit(p, s)
		case StepMarkReady:
			p.edit = m.service(p)
		case StepDelete:
			p.leaving = 1 + m.slow/2
		case StepCreate, StepMarkForDeletion:
		}
	}
	for _, s := range d.Of(StepCreate) {
		rev := m.target
		if s.Old {
			rev = m.previous
		}
		m.add(rev, UpdateHeld).slot = s.Slot
	}
	m.tick++
	m.settle()
}

// service is what a pod comes to that is put into service: it may have to be taken up.
func (m *model) service(p *modelPod) UpdateState {
	if m.hooks.update && p.off || m.hooks.service && p.edit == UpdateHeld && p.asked == 0 {
		p.asked = m.tick + 1
		return UpdateAwaitingHook
	}
	return UpdateNone
}

func (m *model) edit(p *modelPod, d Step) {
	to := m.target
	if d.Old {
		to = m.previous
	}
	switch {
	case d.Reason == ReasonNextBatch:
		p.left--
	case m.quiet != nil && m.quiet(p.rev, to):
		p.rev = to
		return
	default:
		p.rev, p.left = to, m.batches
	}
	p.edit, p.ready, p.serves = UpdateInProgress, -1, m.serves(p.rev)
}

// settle lets the world catch up with the tick.
func (m *model) settle() {
	for name, p := range m.pods {
		up := p.serves != -1 && p.serves <= m.tick
		if answers := !m.hooks.nobody && m.tick-p.asked >= m.slow; answers {
			switch {
			case p.parting:
				p.gone = true
			case p.edit == UpdatePreparing:
				p.off = true
			case p.edit == UpdateAwaitingHook:
				p.edit, p.off = UpdateHeld, false
			}
		}
		if p.edit == UpdateInProgress && up {
			p.edit = UpdateCompleted
			if p.left > 0 {
				p.edit = UpdateNextBatch
			}
		}
		if up && p.edit < UpdateNotReady && p.edit != UpdateHeld && p.ready == -1 {
			p.ready = m.tick
		}
		if p.leaving > 0 {
			if p.leaving--; p.leaving == 0 {
				delete(m.pods, name)
			}
		}
	}
}

// waiting tells that the world will change without a step.
func (m *model) waiting() bool {
	for _, p := range m.pods {
		asked := p.parting && !p.gone || p.edit == UpdatePreparing && !p.off || p.edit == UpdateAwaitingHook
		if asked && !m.hooks.nobody || p.edit == UpdateNotReady && m.tick-p.marked < m.grace {
			return true
		}
		if p.leaving > 0 || p.serves > m.tick || p.ready != -1 && m.tick-p.ready < m.minReady {
			return true
		}
	}
	return false
}

// play replays some ticks, and writes what happened.
func (m *model) play(out *strings.Builder, ticks int) {
	for range ticks {
		s := Next(m.goal, m.facts(), m.at(m.tick))
		fmt.Fprintf(out, "%3d  %s\n", m.tick, m.summary(m.facts()))
		writeSteps(out, s)
		m.apply(s)
	}
}

// rest replays until nothing is left to do or to wait for, and writes what happened.
func (m *model) rest(t *testing.T, out *strings.Builder) {
	t.Helper()
	last := ""
	for range 200 {
		facts := m.facts()
		s := Next(m.goal, facts, m.at(m.tick))
		if line := m.summary(facts); line != last || len(s.Steps) > 0 {
			fmt.Fprintf(out, "%3d  %s\n", m.tick, line)
			last = line
		}
		writeSteps(out, s)
		if len(s.Steps) == 0 && !m.waiting() {
			for _, h := range s.Holds {
				fmt.Fprintf(out, "     hold %s: %s\n", h.Reason, h.Why)
			}
			out.WriteString("     at rest\n")
			return
		}
		m.apply(s)
	}
	t.Fatalf("no rest after 200 ticks:\n%s", out)
}

func (m *model) summary(facts []Pod) string {
	total, available, revs := 0, 0, map[string]int{}
	for _, f := range facts {
		if f.Inactive {
			continue
		}
		total++
		revs[m.pods[f.Key].rev]++
		if f.Available {
			available++
		}
	}
	parts := make([]string, 0, len(revs))
	for _, r := range slices.Sorted(maps.Keys(revs)) {
		parts = append(parts, fmt.Sprintf("%s %d", r, revs[r]))
	}
	return fmt.Sprintf("pods %d (%s), available %d", total, strings.Join(parts, ", "), available)
}

func writeSteps(out *strings.Builder, d Decision) {
	for _, s := range d.Of(StepCreate) {
		rev := "new"
		if s.Old {
			rev = "old"
		}
		if s.Slot != "" {
			rev += " in " + s.Slot
		}
		fmt.Fprintf(out, "     Create %s (%s): %s\n", rev, s.Reason, s.Why)
	}
	for _, kind := range kinds {
		for _, s := range d.Of(kind) {
			fmt.Fprintf(out, "     %s %s (%s): %s\n", kind, s.Key, s.Reason, s.Why)
		}
	}
}

func TestStories(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		tell func(t *testing.T, out *strings.Builder)
	}{
		{"in-place-with-partition", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 4, MaxUnavailable: 1, Partition: 2, Mode: InPlaceIfPossible}, 4)
			out.WriteString("# v2 for all but 2 of 4 pods, 1 unavailable at most\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# partition 0\n")
			m.goal.Partition = 0
			m.rest(t, out)
		}},
		{"surge-with-re-create", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxSurge: 1, Mode: ReCreate}, 3)
			m.minReady = 3
			out.WriteString("# v2 for 3 pods, none unavailable, 1 above; ready for 3 ticks to count\n")
			m.target = "v2"
			m.rest(t, out)
		}},
		{"in-place-needs-no-surge", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxSurge: 2, MaxUnavailable: 1, Mode: InPlaceIfPossible}, 3)
			out.WriteString("# v2 can be reached in place: no pod above 3\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# v3 can't: up to 2 pods above 3\n")
			m.target = "v3"
			m.noEdit = func(_, to string) string {
				if to == "v3" {
					return "container app: env changed"
				}
				return ""
			}
			m.rest(t, out)
		}},
		{"in-place-with-none-unavailable", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxSurge: 1, Mode: InPlaceIfPossible}, 3)
			out.WriteString("# v2 in place, none unavailable: one pod above 3 serves first\n")
			m.target = "v2"
			m.rest(t, out)
		}},
		{"rollback-midway", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 4, MaxUnavailable: 2, Mode: InPlaceIfPossible}, 4)
			out.WriteString("# v2 for 4 pods, 2 at a time\n")
			m.target = "v2"
			m.play(out, 6)
			out.WriteString("# back to v1\n")
			m.target = "v1"
			m.rest(t, out)
		}},
		{"hung-image", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 4, MaxUnavailable: 2, Mode: InPlaceIfPossible}, 4)
			m.bad = map[string]bool{"v2": true}
			out.WriteString("# v2 never starts: 2 pods wait for it, 2 serve\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# back to v1\n")
			m.target = "v1"
			m.rest(t, out)
		}},
		{"hung-image-then-re-create", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxUnavailable: 1, Mode: InPlaceIfPossible}, 3)
			m.bad = map[string]bool{"v2": true}
			out.WriteString("# v2 never starts\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# v3 changes more than images\n")
			m.target = "v3"
			m.noEdit = func(_, _ string) string { return "volumes changed" }
			m.rest(t, out)
		}},
		{"scale-in-order", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 6, MaxUnavailable: 1}, 6)
			m.pods["p03"].ready, m.pods["p03"].serves = -1, -1
			m.pods["p05"].rank.Cost = -1
			m.pods["p06"].rank.Restarts = 2
			out.WriteString("# from 6 to 1, one by one: p03 is not ready, p05 is cheap, p06 restarts, n1 has p01 and p04\n")
			for want := 5; want > 0; want-- {
				m.goal.Replicas = want
				m.rest(t, out)
			}
		}},
		{"paused", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 4, MaxUnavailable: 2, Mode: InPlaceIfPossible}, 4)
			m.target = "v2"
			out.WriteString("# v2, paused after two pods were marked\n")
			m.apply(Next(m.goal, m.facts(), m.at(m.tick)))
			m.goal.Paused = true
			m.rest(t, out)
			out.WriteString("# scaling goes on\n")
			m.goal.Replicas = 5
			m.rest(t, out)
			out.WriteString("# resumed\n")
			m.goal.Paused = false
			m.rest(t, out)
		}},
		{"paused-surge", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxSurge: 2, Mode: ReCreate}, 3)
			m.target = "v2"
			out.WriteString("# v2, paused after two pods were surged: no more come, the one still needed stays\n")
			m.apply(Next(m.goal, m.facts(), m.at(m.tick)))
			m.goal.Paused = true
			m.rest(t, out)
			out.WriteString("# resumed\n")
			m.goal.Paused = false
			m.rest(t, out)
		}},
		{"named-with-surge", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxSurge: 1}, 3)
			m.pods["p02"].doomed = true
			out.WriteString("# p02 is named, none may be unavailable, 1 above: its replacement comes first\n")
			m.rest(t, out)
			out.WriteString("# p01 and p03 are named and 1 pod is wanted\n")
			m.pods["p01"].doomed, m.pods["p03"].doomed = true, true
			m.goal.Replicas = 1
			m.rest(t, out)
		}},
		{"rollback-midway-with-hooks", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 4, MaxUnavailable: 2, Mode: InPlaceIfPossible}, 4)
			m.hooks, m.slow = modelHooks{update: true}, 3
			out.WriteString("# v2 for 4 pods, 2 at a time; pods are let go and taken up after 3 ticks\n")
			m.target = "v2"
			m.play(out, 2)
			out.WriteString("# back to v1 before any pod was let go\n")
			m.target = "v1"
			m.rest(t, out)
			out.WriteString("# v2 again\n")
			m.target = "v2"
			m.play(out, 11)
			out.WriteString("# back to v1: two pods wait to be taken up, and are let go anew\n")
			m.target = "v1"
			m.rest(t, out)
		}},
		{"hooks-that-nobody-serves", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxUnavailable: 1, Mode: InPlaceIfPossible}, 3)
			m.hooks = modelHooks{update: true, nobody: true}
			out.WriteString("# v2, and nobody lets go: one pod waits, two serve\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# back to v1\n")
			m.target = "v1"
			m.rest(t, out)
		}},
		{"scale-in-with-hooks", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxUnavailable: 1}, 3)
			m.hooks, m.slow = modelHooks{remove: true}, 3
			out.WriteString("# from 3 to 2, and back to 3 before the pod was let go\n")
			m.goal.Replicas = 2
			m.play(out, 2)
			m.goal.Replicas = 3
			m.rest(t, out)
			out.WriteString("# from 3 to 2\n")
			m.goal.Replicas = 2
			m.rest(t, out)
		}},
		{"re-create-with-hooks", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxSurge: 1, Mode: ReCreate}, 3)
			m.hooks = modelHooks{remove: true}
			out.WriteString("# v2 for 3 pods, none unavailable, 1 above; pods are let go after 2 ticks\n")
			m.target = "v2"
			m.rest(t, out)
		}},
		{"in-place-in-batches", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceIfPossible}, 2)
			m.batches, m.grace = 1, 2
			out.WriteString("# v2 in two writes a pod, the first 2 ticks after its gate was closed\n")
			m.target = "v2"
			m.rest(t, out)
		}},
		{"partition-rollback", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 4, Partition: 1, MaxUnavailable: 2, Mode: InPlaceIfPossible, Rollback: true}, 4)
			out.WriteString("# v2 for all but 1 of 4 pods\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# all but 3\n")
			m.goal.Partition = 3
			m.rest(t, out)
		}},
		{"metadata-only", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxUnavailable: 1, Partition: 1, Mode: InPlaceIfPossible}, 3)
			m.quiet = func(_, _ string) bool { return true }
			out.WriteString("# v2 changes labels only: all at once, no pod leaves service\n")
			m.target = "v2"
			m.rest(t, out)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			tc.tell(t, &out)
			golden(t, tc.name, out.String())
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
