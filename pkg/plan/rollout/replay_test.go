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

// model simulates the effects of steps: pods are scheduled, become ready, restart and are deleted after some ticks.
type model struct {
	goal       Goal
	target     string                       // the revision that is rolled out
	previous   string                       // the revision that creates with Old use
	notInPlace func(from, to string) string // why a pod can't be updated in place; nil: it always can be
	noRestart  func(from, to string) bool   // the update restarts nothing; nil: it always does
	failing    map[string]bool              // revisions whose containers never start
	ungated    bool                         // pods have no readiness gate
	hooks      modelHooks                   // hooks that hold pods
	batches    int                          // writes that an update needs after the first
	grace      int                          // ticks that a marked pod drains for
	freeSlots  bool                         // a slot is free while its pod is terminating
	slow       int                          // ticks until a container serves
	minReady   int                          // ticks until a ready pod is available
	pods       map[string]*modelPod
	tick       int
	created    int
	log        strings.Builder // what a fuzz run did; printed on failure
}

// modelHooks are the hooks of a workload. They answer after slow ticks, or never if unanswered is set.
type modelHooks struct{ update, delete, service, unanswered bool }

type modelPod struct {
	rev               string
	slot              string
	update            UpdateState
	toDelete          bool
	preparingDelete   bool
	releasedForUpdate bool // released for an update and not yet put into service again
	releasedForDelete bool // released for its deletion
	askedAt           int  // tick at which a hook was asked
	markedAt          int  // tick at which it was marked
	batchesLeft       int  // remaining writes of the update
	startedAt         int  // tick at which the containers serve; never: -1
	readyAt           int  // tick since which the pod is ready; not ready: -1
	goneIn            int  // ticks until it is gone; 0: it stays
	rank              Rank
}

func newModel(g Goal, pods int) *model {
	m := &model{goal: g, target: "v1", previous: "v1", slow: 2, pods: map[string]*modelPod{}}
	for range pods {
		m.add("v1", UpdateNone)
	}
	for _, p := range m.pods {
		p.startedAt, p.readyAt = -100, -100
	}
	return m
}

func (m *model) add(rev string, e UpdateState) *modelPod {
	m.created++
	name := fmt.Sprintf("p%02d", m.created)
	p := &modelPod{rev: rev, update: e, readyAt: -1, startedAt: m.startsAt(rev), rank: Rank{
		Assigned: true, Phase: corev1.PodRunning, Node: fmt.Sprintf("n%d", m.created%3), Created: m.at(m.tick),
	}}
	m.pods[name] = p
	return p
}

func (m *model) startsAt(rev string) int {
	if m.failing[rev] {
		return -1
	}
	return m.tick + m.slow
}

func (m *model) at(tick int) time.Time { return start.Add(time.Duration(tick) * time.Second) }

func (m *model) names() []string { return slices.Sorted(maps.Keys(m.pods)) }

// facts returns the pods as Next sees them.
func (m *model) facts() []Pod {
	out := make([]Pod, 0, len(m.pods))
	for _, name := range m.names() {
		p := m.pods[name]
		if m.freeSlots && p.goneIn > 0 {
			continue
		}
		f := Pod{
			Key: name, Slot: p.slot, Old: p.rev != m.target, Inactive: p.goneIn > 0, ToDelete: p.toDelete, Update: p.update,
			Ready: p.readyAt != -1, Gated: !m.ungated, Rank: p.rank, PreparingDelete: p.preparingDelete,
			UpdateHooked: m.hooks.update && (!p.releasedForUpdate || p.update == UpdateAwaitingHook),
			DeleteHooked: m.hooks.delete && !p.releasedForDelete,
		}
		if p.update == UpdateNotReady && m.tick-p.markedAt < m.grace {
			f.Update = UpdateDraining
			f.ChangesAt = m.at(p.markedAt + m.grace)
		}
		if f.Ready {
			f.Rank.ReadySince = m.at(p.readyAt)
			inService := p.update == UpdateNone && !p.preparingDelete
			f.Available = inService && m.tick-p.readyAt >= m.minReady
			if inService && !f.Available {
				f.ChangesAt = m.at(p.readyAt + m.minReady)
			}
		}
		if to := m.other(p); m.notInPlace != nil {
			f.NotInPlace = m.notInPlace(p.rev, to)
		}
		if to := m.other(p); m.noRestart != nil {
			f.NoRestart = m.noRestart(p.rev, to)
		}
		out = append(out, f)
	}
	return out
}

// other returns the revision that a pod would be updated to.
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
			p.preparingDelete, p.askedAt = true, m.tick
			if p.update < UpdateNotReady {
				p.update = UpdateNone
			}
		case StepCancelDelete:
			p.preparingDelete, p.releasedForDelete = false, false
			if p.update == UpdateNone {
				p.update = m.service(p)
			}
		case StepPrepareUpdate:
			p.update, p.releasedForUpdate, p.askedAt = UpdatePreparing, false, m.tick
		case StepMarkUnready:
			p.update, p.readyAt, p.markedAt = UpdateNotReady, -1, m.tick
		case StepUpdateInPlace:
			m.updateInPlace(p, s)
		case StepMarkReady:
			p.update = m.service(p)
		case StepDelete:
			p.goneIn = 1 + m.slow/2
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

// service returns the update state of a pod that goes into service: a hook may have to answer first.
func (m *model) service(p *modelPod) UpdateState {
	if m.hooks.update && p.releasedForUpdate || m.hooks.service && p.update == UpdateHeld && p.askedAt == 0 {
		p.askedAt = m.tick + 1
		return UpdateAwaitingHook
	}
	return UpdateNone
}

func (m *model) updateInPlace(p *modelPod, d Step) {
	to := m.target
	if d.Old {
		to = m.previous
	}
	switch {
	case d.Reason == ReasonNextBatch:
		p.batchesLeft--
	case m.noRestart != nil && m.noRestart(p.rev, to):
		p.rev = to
		return
	default:
		p.rev, p.batchesLeft = to, m.batches
	}
	p.update, p.readyAt, p.startedAt = UpdateInProgress, -1, m.startsAt(p.rev)
}

// settle advances the model to the current tick.
func (m *model) settle() {
	for name, p := range m.pods {
		up := p.startedAt != -1 && p.startedAt <= m.tick
		if answers := !m.hooks.unanswered && m.tick-p.askedAt >= m.slow; answers {
			switch {
			case p.preparingDelete:
				p.releasedForDelete = true
			case p.update == UpdatePreparing:
				p.releasedForUpdate = true
			case p.update == UpdateAwaitingHook:
				p.update, p.releasedForUpdate = UpdateHeld, false
			}
		}
		if p.update == UpdateInProgress && up {
			p.update = UpdateCompleted
			if p.batchesLeft > 0 {
				p.update = UpdateNextBatch
			}
		}
		if up && p.update < UpdateNotReady && p.update != UpdateHeld && p.readyAt == -1 {
			p.readyAt = m.tick
		}
		if p.goneIn > 0 {
			if p.goneIn--; p.goneIn == 0 {
				delete(m.pods, name)
			}
		}
	}
}

// waiting reports whether the model will change without a step.
func (m *model) waiting() bool {
	for _, p := range m.pods {
		asked := p.preparingDelete && !p.releasedForDelete || p.update == UpdatePreparing && !p.releasedForUpdate || p.update == UpdateAwaitingHook
		if asked && !m.hooks.unanswered || p.update == UpdateNotReady && m.tick-p.markedAt < m.grace {
			return true
		}
		if p.goneIn > 0 || p.startedAt > m.tick || p.readyAt != -1 && m.tick-p.readyAt < m.minReady {
			return true
		}
	}
	return false
}

// play replays some ticks and writes each of them.
func (m *model) play(out *strings.Builder, ticks int) {
	for range ticks {
		s := Next(m.goal, m.facts(), m.at(m.tick))
		fmt.Fprintf(out, "%3d  %s\n", m.tick, m.summary(m.facts()))
		writeSteps(out, s)
		m.apply(s)
	}
}

// rest replays until there is nothing left to do or to wait for, and writes each tick.
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
	t.Fatalf("steps are left after 200 ticks:\n%s", out)
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

func TestReplay(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, out *strings.Builder)
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
			out.WriteString("# v2 for 3 pods, maxUnavailable 0, maxSurge 1, minReady 3 ticks\n")
			m.target = "v2"
			m.rest(t, out)
		}},
		{"in-place-needs-no-surge", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxSurge: 2, MaxUnavailable: 1, Mode: InPlaceIfPossible}, 3)
			out.WriteString("# v2 can be reached in place: no surge\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# v3 can't: up to 2 surge pods\n")
			m.target = "v3"
			m.notInPlace = func(_, to string) string {
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
			out.WriteString("# v2 in place, none unavailable: one surge pod becomes available first\n")
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
		{"image-never-starts", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 4, MaxUnavailable: 2, Mode: InPlaceIfPossible}, 4)
			m.failing = map[string]bool{"v2": true}
			out.WriteString("# v2 never starts: 2 pods are unavailable, 2 stay available\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# back to v1\n")
			m.target = "v1"
			m.rest(t, out)
		}},
		{"image-never-starts-then-re-create", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxUnavailable: 1, Mode: InPlaceIfPossible}, 3)
			m.failing = map[string]bool{"v2": true}
			out.WriteString("# v2 never starts\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# v3 changes more than images\n")
			m.target = "v3"
			m.notInPlace = func(_, _ string) string { return "volumes changed" }
			m.rest(t, out)
		}},
		{"scale-in-order", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 6, MaxUnavailable: 1}, 6)
			m.pods["p03"].readyAt, m.pods["p03"].startedAt = -1, -1
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
			out.WriteString("# scaling continues\n")
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
			out.WriteString("# v2, paused after two pods were surged: no further surge, the one still needed stays\n")
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
			m.pods["p02"].toDelete = true
			out.WriteString("# p02 is named, maxUnavailable 0, maxSurge 1: its replacement comes first\n")
			m.rest(t, out)
			out.WriteString("# p01 and p03 are named and 1 pod is wanted\n")
			m.pods["p01"].toDelete, m.pods["p03"].toDelete = true, true
			m.goal.Replicas = 1
			m.rest(t, out)
		}},
		{"rollback-midway-with-hooks", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 4, MaxUnavailable: 2, Mode: InPlaceIfPossible}, 4)
			m.hooks, m.slow = modelHooks{update: true}, 3
			out.WriteString("# v2 for 4 pods, 2 at a time; hooks answer after 3 ticks\n")
			m.target = "v2"
			m.play(out, 2)
			out.WriteString("# back to v1 before any hook answered\n")
			m.target = "v1"
			m.rest(t, out)
			out.WriteString("# v2 again\n")
			m.target = "v2"
			m.play(out, 11)
			out.WriteString("# back to v1: two pods await their hooks before service, and are prepared again\n")
			m.target = "v1"
			m.rest(t, out)
		}},
		{"hooks-without-answer", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxUnavailable: 1, Mode: InPlaceIfPossible}, 3)
			m.hooks = modelHooks{update: true, unanswered: true}
			out.WriteString("# v2, and no hook answers: one pod waits, two stay available\n")
			m.target = "v2"
			m.rest(t, out)
			out.WriteString("# back to v1\n")
			m.target = "v1"
			m.rest(t, out)
		}},
		{"scale-in-with-hooks", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 3, MaxUnavailable: 1}, 3)
			m.hooks, m.slow = modelHooks{delete: true}, 3
			out.WriteString("# from 3 to 2, and back to 3 before the hook answered\n")
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
			m.hooks = modelHooks{delete: true}
			out.WriteString("# v2 for 3 pods, maxUnavailable 0, maxSurge 1; hooks answer after 2 ticks\n")
			m.target = "v2"
			m.rest(t, out)
		}},
		{"in-place-in-batches", func(t *testing.T, out *strings.Builder) {
			t.Helper()
			m := newModel(Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceIfPossible}, 2)
			m.batches, m.grace = 1, 2
			out.WriteString("# v2 in two batches for each pod, the first 2 ticks after MarkUnready\n")
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
			m.noRestart = func(_, _ string) bool { return true }
			out.WriteString("# v2 changes labels only: all at once, no pod leaves service\n")
			m.target = "v2"
			m.rest(t, out)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			tc.run(t, &out)
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
