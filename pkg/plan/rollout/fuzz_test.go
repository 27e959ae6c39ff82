package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// FuzzNext replays random scenarios. During the first ticks the goal changes at random; after that, steps must come to an end. Every decision is
// checked against the invariants of the package.
func FuzzNext(f *testing.F) {
	for i := range uint64(40) {
		f.Add(i, uint8(i*7), uint8(i*3), uint8(i%4), uint8(i%3), uint8(i%4), uint8(i*5), uint8(i*11))
	}
	f.Fuzz(replay)
}

func replay(t *testing.T, seed uint64, want, partition, unavailable, surge, mode, flags, hooks uint8) {
	r := rand.New(rand.NewPCG(seed, 1))
	g := Goal{
		Replicas: int(want % 12), Partition: int(partition % 14), MaxUnavailable: int(unavailable % 6),
		MaxSurge: int(surge % 5), Mode: Mode(mode % 4), Paused: flags&1 != 0, Rollback: flags&32 != 0,
		ExcludePreparingDelete: flags&64 != 0, PreparingUpdateAsUpdated: flags&128 != 0,
	}
	m := randomModel(r, g, flags, hooks)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.log.String())
		}
	})
	for range 20 {
		if r.IntN(3) == 0 {
			disturb(r, m)
		}
		step(t, r, m)
	}
	touched := map[string]int{}
	for range 400 {
		waiting := m.waiting()
		s, done := step(t, r, m)
		checkOnce(t, touched, done)
		if len(s.Steps) == 0 && !waiting {
			checkRest(t, m, s)
			return
		}
	}
	t.Fatalf("no rest: %+v %+v", m.goal, m.facts())
}

func randomModel(r *rand.Rand, g Goal, flags, hooks uint8) *model {
	m := newModel(g, r.IntN(14))
	m.slow, m.minReady = 1+r.IntN(3), r.IntN(5)
	m.target = "v2"
	m.ungated = flags&2 != 0
	m.hooks = modelHooks{update: hooks&1 != 0, delete: hooks&2 != 0, service: hooks&4 != 0, unanswered: hooks&24 == 24}
	m.batches, m.grace = int(hooks>>5&1), int(hooks>>6&1)*2
	if hooks>>7 != 0 {
		m.goal.ScaleMaxUnavailable = new(1 + r.IntN(4))
	}
	if flags&4 != 0 {
		m.failing = map[string]bool{"v2": true}
	}
	if flags&8 != 0 {
		m.notInPlace = func(from, _ string) string {
			if from == "v1" {
				return "volumes changed"
			}
			return ""
		}
	}
	if flags&16 != 0 {
		m.noRestart = func(from, to string) bool { return from == "v3" || to == "v3" }
	}
	for _, name := range m.names() {
		p := m.pods[name]
		p.rev = []string{"v1", "v2", "v3"}[r.IntN(3)]
		p.toDelete = r.IntN(8) == 0
		p.update = []UpdateState{UpdateNone, UpdateHeld, UpdateAwaitingHook, UpdatePreparing, UpdateNotReady, UpdateInProgress, UpdateNextBatch, UpdateCompleted}[r.IntN(8)]
		p.preparingDelete, p.releasedForUpdate, p.releasedForDelete, p.batchesLeft = r.IntN(8) == 0, r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2)
		if p.preparingDelete && p.update < UpdateNotReady {
			p.update = UpdateNone
		}
		p.rank.Restarts, p.rank.Cost = int32(r.IntN(2)), int32(r.IntN(2))
		switch {
		case r.IntN(8) == 0:
			p.goneIn, p.readyAt = 2, -1
		case p.update != UpdateNone, r.IntN(3) == 0:
			p.readyAt, p.startedAt = -1, m.startsAt(p.rev)
		default:
			p.readyAt, p.startedAt = -r.IntN(6), -10
		}
	}
	return m
}

// disturb makes a change that a user could make, or breaks a pod.
func disturb(r *rand.Rand, m *model) {
	names := m.names()
	switch n := r.IntN(7); {
	case n == 0:
		m.goal.Replicas = r.IntN(12)
	case n == 1:
		m.goal.Partition = r.IntN(12)
	case n == 2:
		m.goal.Paused = !m.goal.Paused
	case n == 3:
		m.target = []string{"v1", "v2", "v3"}[r.IntN(3)]
	case n == 4 && len(names) > 0:
		m.pods[names[r.IntN(len(names))]].toDelete = true
	case n == 5 && len(names) > 0:
		if p := m.pods[names[r.IntN(len(names))]]; p.readyAt != -1 {
			p.readyAt, p.startedAt = -1, m.startsAt(p.rev)
		}
	case n == 6:
		m.goal.Mode = Mode(r.IntN(4))
	}
}

// step calls Next, checks the decision and applies it, sometimes only in part. done is the applied part.
func step(t *testing.T, r *rand.Rand, m *model) (s, done Decision) {
	t.Helper()
	pods := m.facts()
	if m.target == m.previous {
		m.goal.Rollback = false // there is no other revision to go back to
	}
	s = Next(m.goal, pods, m.at(m.tick))
	require.Empty(t, cmp.Diff(s, Next(m.goal, pods, m.at(m.tick))), "same input, same output")
	shuffled := slices.Clone(pods)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	require.Empty(t, cmp.Diff(s, Next(m.goal, shuffled, m.at(m.tick))), "the order of pods doesn't matter")
	checkSteps(t, m.goal, pods, s)
	checkPartition(t, m, pods, s)

	part := s
	if r.IntN(4) == 0 {
		left := map[StepKind]int{StepMarkUnready: 0}
		for _, kind := range []StepKind{StepCreate, StepDelete, StepPrepareUpdate} {
			left[kind] = r.IntN(len(s.Of(kind)) + 1)
		}
		part.Steps = slices.DeleteFunc(slices.Clone(s.Steps), func(s Step) bool {
			n, limited := left[s.Kind]
			if limited {
				left[s.Kind]--
			}
			return limited && n <= 0
		})
	}
	fmt.Fprintf(&m.log, "%3d  %+v\n     %s\n", m.tick, m.goal, m.summary(pods))
	writeSteps(&m.log, part)
	m.apply(part)
	return s, part
}

// totals are counts over a list of pods.
type totals struct{ active, available, serving, ready, old, updated, toDelete, preparingDelete, unavailable int }

// serves reports whether a pod is available, or is ready and going to be replaced.
func (p *Pod) serves() bool { return p.Available || p.Old && p.inService() }

func sum(pods []Pod) totals {
	var n totals
	for _, p := range pods {
		if p.Inactive {
			continue
		}
		n.active++
		for _, c := range []struct {
			yes bool
			n   *int
		}{
			{p.Available, &n.available},
			{p.serves(), &n.serving},
			{p.inService(), &n.ready},
			{p.Old, &n.old},
			{!p.Old, &n.updated},
			{p.ToDelete, &n.toDelete},
			{p.PreparingDelete, &n.preparingDelete},
			{!p.Available && (!p.ToDelete || p.PreparingDelete), &n.unavailable},
		} {
			if c.yes {
				*c.n++
			}
		}
	}
	return n
}

func checkSteps(t *testing.T, g Goal, pods []Pod, s Decision) {
	t.Helper()
	byKey := map[string]Pod{}
	for _, p := range pods {
		byKey[p.Key] = p
	}
	before, floor := sum(pods), max(g.Replicas-g.MaxUnavailable, 0)
	available, serving, ready, forUpdate := before.available, before.serving, before.ready, 0
	seen := map[string]bool{}
	for _, d := range changes(s) {
		p, known := byKey[d.Key]
		require.True(t, known && !p.Inactive, "step for pod %q that is unknown or inactive", d.Key)
		require.False(t, seen[d.Key], "pod %q has two steps", d.Key)
		seen[d.Key] = true
		require.NotEmpty(t, d.Why)
		update := d.Reason == ReasonInPlace || d.Reason == ReasonRecreate
		if update {
			require.NotEqual(t, d.Old, p.Old, "pod %q is at the right revision already", d.Key)
			require.True(t, g.Rollback || !d.Old, "pod %q is rolled back", d.Key)
			forUpdate++
		}
		quiet := d.Reason == ReasonInPlace && p.NoRestart && !p.UpdateHooked
		if update && !quiet || d.Reason == ReasonNamed || d.Reason == ReasonScaleIn {
			if p.Available {
				available--
				require.False(t, update && available < floor, "update of %q leaves %d < %d available", d.Key, available, floor)
			}
			if p.serves() {
				serving--
			}
			// An update may take pods that are ready but not available: they never counted.
			if p.inService() && !update {
				ready--
			}
		}
	}
	checkHooks(t, byKey, s)
	if available < min(before.available, floor) {
		require.Greater(t, before.active, g.Replicas+g.MaxSurge, "only a scale-in may go below the minimum")
		require.GreaterOrEqual(t, ready, min(before.ready, floor))
	}
	if serving < min(before.serving, floor) && !g.Rollback {
		require.Greater(t, before.active, g.Replicas+g.MaxSurge, "only a scale-in takes ready pods that a rollout replaces")
	}
	have := before.active
	if g.ExcludePreparingDelete {
		have -= before.preparingDelete
	}
	require.LessOrEqual(t, have+len(s.Of(StepCreate)), max(have, g.Replicas+g.MaxSurge), "above replicas + surge")
	if limit := g.ScaleMaxUnavailable; limit != nil && len(s.Of(StepCreate)) > 0 {
		require.LessOrEqual(t, before.unavailable+len(s.Of(StepCreate)), *limit, "above what may be unavailable while scaling")
	}
	if g.Paused || g.Mode == OnDelete {
		require.Zero(t, forUpdate, "an update while paused or on delete")
		for _, c := range s.Of(StepCreate) {
			require.False(t, c.Reason == ReasonSurge && before.toDelete == 0, "surge while paused")
		}
	}
	for _, d := range changes(s) {
		if d.Reason != ReasonInPlace && d.Reason != ReasonRecreate {
			continue
		}
		if keep := min(g.Partition, g.Replicas); d.Old {
			require.GreaterOrEqual(t, before.updated-forUpdate, g.Replicas-keep, "too many are rolled back")
		} else {
			require.GreaterOrEqual(t, before.old-forUpdate, keep, "the partition was broken")
		}
	}
}

// changes returns all steps for existing pods.
func changes(s Decision) []Step {
	return slices.DeleteFunc(slices.Clone(s.Steps), func(s Step) bool { return s.Kind == StepCreate })
}

// checkHooks: no step ignores a lifecycle hook that holds its pod, and only hooks that hold a pod are asked.
func checkHooks(t *testing.T, pods map[string]Pod, s Decision) {
	t.Helper()
	for _, d := range s.Of(StepDelete) {
		require.False(t, pods[d.Key].DeleteHooked, "delete of %q that is hooked", d.Key)
	}
	for _, d := range s.Of(StepPrepareDelete) {
		p := pods[d.Key]
		require.True(t, p.DeleteHooked && !p.PreparingDelete, "pod %q was asked before", d.Key)
	}
	for _, d := range s.Of(StepCancelDelete) {
		require.True(t, pods[d.Key].PreparingDelete && !pods[d.Key].ToDelete, "canceled deletion of %q", d.Key)
	}
	for _, d := range s.Of(StepPrepareUpdate) {
		p := pods[d.Key]
		require.True(t, p.UpdateHooked && p.Update < UpdatePreparing, "pod %q was asked before", d.Key)
	}
	for _, d := range slices.Concat(s.Of(StepMarkUnready), s.Of(StepUpdateInPlace)) {
		p := pods[d.Key]
		require.False(t, p.UpdateHooked && p.Update <= UpdatePreparing, "update of %q that is hooked", d.Key)
		require.NotEqual(t, UpdateDraining, p.Update, "update of %q before its traffic is gone", d.Key)
		require.False(t, p.PreparingDelete, "update of %q that is to be deleted", d.Key)
	}
	for _, d := range s.Of(StepMarkReady) {
		p := pods[d.Key]
		require.NotContains(t, []UpdateState{UpdateNone, UpdateAwaitingHook, UpdateInProgress, UpdateNextBatch}, p.Update, "release of %q", d.Key)
	}
}

// checkOnce: while only the steps change the model, no pod is touched twice for the same reason.
func checkOnce(t *testing.T, touched map[string]int, s Decision) {
	t.Helper()
	for _, kind := range []StepKind{StepPrepareDelete, StepCancelDelete, StepPrepareUpdate} {
		for _, d := range s.Of(kind) {
			key := string(kind) + " " + d.Key
			touched[key]++
			require.Equal(t, 1, touched[key], key)
		}
	}
	for _, d := range s.Of(StepUpdateInPlace) {
		if d.Reason == ReasonInPlace {
			touched[d.Key]++
			require.Equal(t, 1, touched[d.Key], "update %s", d.Key)
		}
	}
}

// checkPartition: a higher partition never updates more pods. Scale-in is left out, because the partition affects which pods it deletes.
func checkPartition(t *testing.T, m *model, pods []Pod, s Decision) {
	t.Helper()
	g := m.goal
	g.Partition++
	higher := Next(g, pods, m.at(m.tick))
	updates := func(s Decision) (n int, scaleIn bool) {
		for _, d := range changes(s) {
			scaleIn = scaleIn || d.Reason == ReasonScaleIn
			if (d.Reason == ReasonInPlace || d.Reason == ReasonRecreate) && !d.Old {
				n++
			}
		}
		return n, scaleIn
	}
	low, scaleInLow := updates(s)
	high, scaleInHigh := updates(higher)
	if !scaleInLow && !scaleInHigh {
		require.LessOrEqual(t, high, low, "partition %d updates more than %d", g.Partition, m.goal.Partition)
	}
}

func checkRest(t *testing.T, m *model, s Decision) {
	t.Helper()
	var out strings.Builder
	for _, h := range s.Holds {
		out.WriteString(h.Why + "\n")
	}
	waits := false
	for _, p := range m.facts() {
		begun := []UpdateState{UpdateHeld, UpdateNotReady, UpdateDraining, UpdateNextBatch, UpdateCompleted}
		require.False(t, !p.PreparingDelete && slices.Contains(begun, p.Update), "pod %q is left behind", p.Key)
		waits = waits || p.PreparingDelete || p.Update == UpdatePreparing || p.Update == UpdateAwaitingHook
	}
	if waits {
		require.True(t, m.hooks.unanswered, "a hook answered and nothing followed")
		require.Contains(t, out.String(), "for their lifecycle hooks")
	}
	stuck := m.failing != nil || m.goal.MaxUnavailable+m.goal.MaxSurge == 0 || m.goal.Paused || waits
	if stuck {
		return
	}
	n := sum(m.facts())
	require.Equal(t, m.goal.Replicas, n.active, "%+v\n%s", m.goal, &out)
	require.Zero(t, n.toDelete)
	if m.goal.Mode == ReCreate || m.goal.Mode == InPlaceIfPossible {
		require.LessOrEqual(t, n.old, m.goal.Partition, "%+v\n%s", m.goal, &out)
	}
}
