package rollout

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// FuzzNext replays random worlds. While the first ticks pass, the goal changes at random; then the world must come to
// rest. Every answer on the way is held against the invariants of the package.
func FuzzNext(f *testing.F) {
	for i := range uint64(40) {
		f.Add(i, uint8(i*7), uint8(i*3), uint8(i%4), uint8(i%3), uint8(i%4), uint8(i*5))
	}
	f.Fuzz(func(t *testing.T, seed uint64, want, partition, unavailable, surge, mode, flags uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := Goal{
			Want: int(want % 12), Partition: int(partition % 14), MaxUnavailable: int(unavailable % 6),
			MaxSurge: int(surge % 5), Mode: Mode(mode % 4), Paused: flags&1 != 0,
		}
		m := randomModel(r, g, flags)
		for range 20 {
			if r.IntN(3) == 0 {
				disturb(r, m)
			}
			step(t, r, m)
		}
		for range 400 {
			waiting := m.waiting()
			if s := step(t, r, m); s.None() && !waiting {
				checkRest(t, m, s)
				return
			}
		}
		t.Fatalf("no rest: %+v %+v", m.goal, m.facts())
	})
}

func randomModel(r *rand.Rand, g Goal, flags uint8) *model {
	m := newModel(g, r.IntN(14))
	m.slow, m.minReady = 1+r.IntN(3), r.IntN(5)
	m.target = "v2"
	m.gateless = flags&2 != 0
	if flags&4 != 0 {
		m.bad = map[string]bool{"v2": true}
	}
	if flags&8 != 0 {
		m.noEdit = func(from, _ string) string {
			if from == "v1" {
				return "volumes changed"
			}
			return ""
		}
	}
	if flags&16 != 0 {
		m.quiet = func(from, to string) bool { return from == "v3" || to == "v3" }
	}
	for _, name := range m.names() {
		p := m.pods[name]
		p.rev = []string{"v1", "v2", "v3"}[r.IntN(3)]
		p.doomed = r.IntN(8) == 0
		p.edit = EditState(r.IntN(5))
		p.rank.Restarts, p.rank.Cost = int32(r.IntN(2)), int32(r.IntN(2))
		switch {
		case r.IntN(8) == 0:
			p.leaving, p.ready = 2, -1
		case p.edit != EditNone, r.IntN(3) == 0:
			p.ready, p.serves = -1, m.serves(p.rev)
		default:
			p.ready, p.serves = -r.IntN(6), -10
		}
	}
	return m
}

// disturb changes what a user could change, or breaks a pod.
func disturb(r *rand.Rand, m *model) {
	names := m.names()
	switch n := r.IntN(7); {
	case n == 0:
		m.goal.Want = r.IntN(12)
	case n == 1:
		m.goal.Partition = r.IntN(12)
	case n == 2:
		m.goal.Paused = !m.goal.Paused
	case n == 3:
		m.target = []string{"v1", "v2", "v3"}[r.IntN(3)]
	case n == 4 && len(names) > 0:
		m.pods[names[r.IntN(len(names))]].doomed = true
	case n == 5 && len(names) > 0:
		if p := m.pods[names[r.IntN(len(names))]]; p.ready != -1 {
			p.ready, p.serves = -1, m.serves(p.rev)
		}
	case n == 6:
		m.goal.Mode = Mode(r.IntN(4))
	}
}

// step asks Next, checks the answer and applies it, sometimes only a part of it.
func step(t *testing.T, r *rand.Rand, m *model) Steps {
	t.Helper()
	pods := m.facts()
	s := Next(m.goal, pods, m.at(m.tick))
	require.Empty(t, cmp.Diff(s, Next(m.goal, pods, m.at(m.tick))), "same input, same output")
	shuffled := slices.Clone(pods)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	require.Empty(t, cmp.Diff(s, Next(m.goal, shuffled, m.at(m.tick))), "the order of pods doesn't matter")
	checkSteps(t, m.goal, pods, s)
	checkPartition(t, m, pods, s)

	part := s
	if r.IntN(4) == 0 {
		part.Create = part.Create[:r.IntN(len(part.Create)+1)]
		part.Delete = part.Delete[:r.IntN(len(part.Delete)+1)]
		part.Mark = nil
	}
	m.apply(part)
	return s
}

// totals are what a list of pods adds up to.
type totals struct{ active, available, ready, old, doomed int }

func sum(pods []Pod) totals {
	var n totals
	for _, p := range pods {
		if p.Leaving {
			continue
		}
		n.active++
		for _, c := range []struct {
			yes bool
			n   *int
		}{{p.Available, &n.available}, {p.Ready, &n.ready}, {p.Old, &n.old}, {p.Doomed, &n.doomed}} {
			if c.yes {
				*c.n++
			}
		}
	}
	return n
}

func checkSteps(t *testing.T, g Goal, pods []Pod, s Steps) {
	t.Helper()
	byKey := map[string]Pod{}
	for _, p := range pods {
		byKey[p.Key] = p
	}
	before, floor := sum(pods), max(g.Want-g.MaxUnavailable, 0)
	available, ready, forUpdate := before.available, before.ready, 0
	seen := map[string]bool{}
	for _, d := range slices.Concat(s.Delete, s.Mark, s.Edit, s.Release) {
		p, known := byKey[d.Key]
		require.True(t, known && !p.Leaving, "step for pod %q that doesn't count", d.Key)
		require.False(t, seen[d.Key], "pod %q has two steps", d.Key)
		seen[d.Key] = true
		require.NotEmpty(t, d.Why)
		update := d.Reason == ReasonInPlace || d.Reason == ReasonRecreate
		if update {
			require.True(t, p.Old, "pod %q is updated and not old", d.Key)
			forUpdate++
		}
		if (update && !p.Quiet) || d.Reason == ReasonRecreate || d.Reason == ReasonNamed || d.Reason == ReasonScaleIn {
			if p.Available {
				available--
				require.False(t, update && available < floor, "update of %q leaves %d < %d available", d.Key, available, floor)
			}
			// An update may take pods that are ready and not available: they never counted.
			if p.Ready && !update {
				ready--
			}
		}
	}
	if available < min(before.available, floor) {
		require.Greater(t, before.active, g.Want+g.MaxSurge, "only a lower want lets go below the minimum")
		require.GreaterOrEqual(t, ready, min(before.ready, floor))
	}
	require.LessOrEqual(t, before.active+len(s.Create), max(before.active, g.Want+g.MaxSurge), "above want + surge")
	if g.Paused || g.Mode == OnDelete {
		require.Zero(t, forUpdate, "an update that shall not be")
		for _, c := range s.Create {
			require.False(t, c.Reason == ReasonSurge && before.doomed == 0, "surge while paused")
		}
	}
	if forUpdate > 0 {
		left := before.old - forUpdate
		require.GreaterOrEqual(t, left, min(g.Partition, g.Want), "the partition was broken")
	}
}

// checkPartition: a higher partition never updates more pods. Scale-in is left out, because the partition decides which
// pods it takes.
func checkPartition(t *testing.T, m *model, pods []Pod, s Steps) {
	t.Helper()
	g := m.goal
	g.Partition++
	higher := Next(g, pods, m.at(m.tick))
	updates := func(s Steps) (n int, scaleIn bool) {
		for _, d := range slices.Concat(s.Delete, s.Mark, s.Edit) {
			scaleIn = scaleIn || d.Reason == ReasonScaleIn
			if d.Reason == ReasonInPlace || d.Reason == ReasonRecreate {
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

func checkRest(t *testing.T, m *model, s Steps) {
	t.Helper()
	var out strings.Builder
	for _, h := range s.Holds {
		out.WriteString(h.Why + "\n")
	}
	for _, p := range m.facts() {
		require.NotContains(t, []EditState{EditHeld, EditMarked, EditDone}, p.Edit, "pod %q is left behind", p.Key)
	}
	stuck := m.bad != nil || m.goal.MaxUnavailable+m.goal.MaxSurge == 0 || m.goal.Paused
	if stuck {
		return
	}
	n := sum(m.facts())
	require.Equal(t, m.goal.Want, n.active, "%+v\n%s", m.goal, &out)
	require.Zero(t, n.doomed)
	if m.goal.Mode == ReCreate || m.goal.Mode == InPlaceIfPossible {
		require.LessOrEqual(t, n.old, m.goal.Partition, "%+v\n%s", m.goal, &out)
	}
}
