package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// pod returns an available pod at the new revision, changed by each of fs.
func pod(key string, fs ...func(*Pod)) Pod {
	p := Pod{Key: key, Ready: true, Available: true, Gated: true, Rank: Rank{
		Assigned: true, Phase: corev1.PodRunning, Created: start, ReadySince: start,
	}}
	for _, f := range fs {
		f(&p)
	}
	return p
}

func old(p *Pod)             { p.Old = true }
func ended(p *Pod)           { p.Ended = true }
func unready(p *Pod)         { p.Ready, p.Available = false, false }
func notAvailable(p *Pod)    { p.Available = false }
func inactive(p *Pod)        { p.Inactive = true; unready(p) }
func toDelete(p *Pod)        { p.ToDelete = true }
func ungated(p *Pod)         { p.Gated = false }
func noRestart(p *Pod)       { p.NoRestart = true }
func notInPlace(p *Pod)      { p.NotInPlace = "container app: env changed" }
func notReady(p *Pod)        { p.Update = UpdateNotReady; unready(p) }
func updating(p *Pod)        { p.Update = UpdateInProgress; unready(p) }
func updateCompleted(p *Pod) { p.Update = UpdateCompleted; unready(p) }
func held(p *Pod)            { p.Update = UpdateHeld; unready(p) }
func awaitingHook(p *Pod)    { p.Update = UpdateAwaitingHook; notAvailable(p) }
func preparingUpdate(p *Pod) { p.Update = UpdatePreparing; notAvailable(p) }
func draining(p *Pod)        { p.Update = UpdateDraining; unready(p) }
func nextBatch(p *Pod)       { p.Update = UpdateNextBatch; unready(p) }
func preparingDelete(p *Pod) { p.PreparingDelete = true; notAvailable(p) }
func updateHooked(p *Pod)    { p.UpdateHooked = true }
func deleteHooked(p *Pod)    { p.DeleteHooked = true }
func order(n int) func(*Pod) { return func(p *Pod) { p.Rank.Order = n } }

// many returns n pods with keys "<prefix>00", "<prefix>01" and so on.
func many(n int, prefix string, fs ...func(*Pod)) []Pod {
	out := make([]Pod, 0, n)
	for i := range n {
		out = append(out, pod(fmt.Sprintf("%s%02d", prefix, i), fs...))
	}
	return out
}

// kinds are the kinds of steps for existing pods, in the order in which golden files list them.
var kinds = []StepKind{
	StepPrepareDelete, StepDelete, StepCancelDelete, StepPrepareUpdate, StepMarkUnready, StepUpdateInPlace, StepMarkReady,
}

// brief returns the steps without their sentences: "Create new Missing", "Delete a00 ScaleIn", "hold Budget 2".
func brief(d Decision) []string {
	var out []string
	for _, s := range d.Of(StepCreate) {
		rev := "new"
		if s.Old {
			rev = "old"
		}
		if s.Slot != "" {
			rev += " " + s.Slot
		}
		out = append(out, fmt.Sprintf("Create %s %s", rev, s.Reason))
	}
	for _, kind := range kinds {
		for _, s := range d.Of(kind) {
			if s.Old {
				s.Key += " back"
			}
			out = append(out, fmt.Sprintf("%s %s %s", kind, s.Key, s.Reason))
		}
	}
	for _, h := range d.Holds {
		out = append(out, fmt.Sprintf("hold %s %d", h.Reason, h.Pods))
	}
	return out
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			name: "no steps when the goal is reached",
			goal: Goal{Replicas: 3, MaxUnavailable: 1, MaxSurge: 1},
			pods: many(3, "a"),
		},
		{
			name: "missing pods are created, those of the partition at the old revision",
			goal: Goal{Replicas: 4, Partition: 2},
			pods: slices.Concat(many(1, "a", old), many(1, "b")),
			want: []string{"Create old Missing", "Create new Missing"},
		},
		{
			name: "a negative number of replicas means no pods",
			goal: Goal{Replicas: -3, MaxSurge: -1},
			pods: many(1, "a"),
			want: []string{"Delete a00 ScaleIn"},
		},
		{
			name: "a terminating pod does not count and is replaced",
			goal: Goal{Replicas: 2},
			pods: slices.Concat(many(1, "a"), many(1, "b", inactive)),
			want: []string{"Create new Missing"},
		},
		{
			name: "scale-in takes old pods down to the partition before new ones",
			goal: Goal{Replicas: 3, Partition: 1, MaxUnavailable: 1},
			pods: slices.Concat(many(3, "a", old), many(2, "b")),
			want: []string{"Delete a00 ScaleIn", "Delete a01 ScaleIn"},
		},
		{
			name: "scale-in deletes pods that don't serve first",
			goal: Goal{Replicas: 2},
			pods: slices.Concat(many(2, "a"), many(1, "b", notAvailable), many(1, "c", unready)),
			want: []string{"Delete c00 ScaleIn", "Delete b00 ScaleIn"},
		},
		{
			name: "pods that are ready but not yet available don't delay scale-in",
			goal: Goal{Replicas: 2},
			pods: slices.Concat(many(2, "a", toDelete), many(2, "b", notAvailable)),
			want: []string{"Delete a00 Named", "Delete a01 Named"},
		},
		{
			name: "pods that aren't ready delay the deletion of named pods that serve",
			goal: Goal{Replicas: 2},
			pods: slices.Concat(many(2, "a", toDelete), many(2, "b", unready)),
			want: []string{"hold Budget 2"},
		},
		{
			name: "readiness is enough for the deletion of surplus pods only",
			goal: Goal{Replicas: 3},
			pods: slices.Concat(many(2, "a", toDelete), many(3, "b", notAvailable), many(1, "c", inactive)),
			want: []string{"Delete a00 Named", "Delete a01 Named"},
		},
		{
			name: "named pods beyond the surplus ones wait until the others are available",
			goal: Goal{Replicas: 3, MaxUnavailable: 1},
			pods: slices.Concat(many(2, "a", toDelete), many(2, "b", notAvailable)),
			want: []string{"Delete a00 Named", "hold Budget 1"},
		},
		{
			name: "a named pod that is ready but not yet available stays while too few are ready",
			goal: Goal{Replicas: 2},
			pods: slices.Concat(many(1, "a", toDelete, notAvailable), many(1, "b", unready)),
			want: []string{"hold Budget 1"},
		},
		{
			name: "old pods are kept until surge pods are available",
			goal: Goal{Replicas: 2, MaxSurge: 2},
			pods: slices.Concat(many(2, "a", old), many(2, "b", notAvailable)),
			want: []string{"hold Budget 2"},
		},
		{
			name: "a named pod that doesn't serve is deleted at once",
			goal: Goal{Replicas: 2},
			pods: slices.Concat(many(1, "a", toDelete, unready), many(1, "b")),
			want: []string{"Delete a00 Named"},
		},
		{
			name: "a named pod that is available waits for the budget",
			goal: Goal{Replicas: 3, MaxUnavailable: 1},
			pods: slices.Concat(many(1, "a", toDelete), many(1, "b"), many(1, "c", unready)),
			want: []string{"hold Budget 1"},
		},
		{
			name: "an old named pod that the partition keeps is replaced at the old revision",
			goal: Goal{Replicas: 2, Partition: 2, MaxSurge: 1},
			pods: slices.Concat(many(1, "a", old, toDelete), many(1, "b", old)),
			want: []string{"Create old Surge", "hold Budget 1"},
		},
		{
			name: "named pods get a surge while paused, too, because their replacement is no update",
			goal: Goal{Replicas: 2, MaxSurge: 1, Paused: true},
			pods: slices.Concat(many(1, "a", toDelete), many(1, "b")),
			want: []string{"Create new Surge", "hold Budget 1"},
		},
		{
			name: "re-creation is limited by the budget",
			goal: Goal{Replicas: 4, MaxUnavailable: 2},
			pods: many(4, "a", old),
			want: []string{"Delete a00 Recreate", "Delete a01 Recreate", "hold InFlight 2"},
		},
		{
			name: "missing pods use up the budget",
			goal: Goal{Replicas: 4, MaxUnavailable: 1},
			pods: many(3, "a", old),
			want: []string{"Create new Missing", "hold Budget 3"},
		},
		{
			name: "old pods that don't serve are updated at the pace of the budget, although they use none",
			goal: Goal{Replicas: 4, MaxUnavailable: 1, Mode: InPlaceIfPossible},
			pods: many(4, "a", old, unready),
			want: []string{"MarkUnready a00 InPlace", "hold InFlight 3"},
		},
		{
			name: "updated pods that don't serve stop the update",
			goal: Goal{Replicas: 4, MaxUnavailable: 1},
			pods: slices.Concat(many(1, "a", unready), many(3, "b", old)),
			want: []string{"hold InFlight 3"},
		},
		{
			name: "an unavailable pod that the partition keeps uses up the budget of the others",
			goal: Goal{Replicas: 3, Partition: 1, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: slices.Concat(many(1, "a", old, unready, notInPlace), many(2, "b", old)),
			want: []string{"hold Budget 2"},
		},
		{
			name: "surge creates new pods only for those that have to be re-created",
			goal: Goal{Replicas: 3, MaxSurge: 3, MaxUnavailable: 1, Mode: InPlaceIfPossible},
			pods: slices.Concat(many(2, "a", old), many(1, "b", old, notInPlace)),
			want: []string{"Create new Surge", "MarkUnready a00 InPlace", "hold InFlight 2"},
		},
		{
			name: "with none unavailable, pods that are updated in place need a surge as well",
			goal: Goal{Replicas: 2, MaxSurge: 1, Mode: InPlaceIfPossible},
			pods: many(2, "a", old),
			want: []string{"Create new Surge", "hold Budget 2"},
		},
		{
			name: "an update that restarts nothing needs no surge",
			goal: Goal{Replicas: 2, MaxSurge: 1, Mode: InPlaceIfPossible},
			pods: many(2, "a", old, noRestart),
			want: []string{"UpdateInPlace a00 InPlace", "UpdateInPlace a01 InPlace"},
		},
		{
			name: "named pods that need no replacement get no surge",
			goal: Goal{Replicas: 2, MaxSurge: 2},
			pods: slices.Concat(many(2, "a", toDelete), many(1, "b", unready)),
			want: []string{"hold Budget 2"},
		},
		{
			name: "no steps when neither surge nor unavailable pods are allowed",
			goal: Goal{Replicas: 2},
			pods: many(2, "a", old),
			want: []string{"hold Budget 2"},
		},
		{
			name: "a paused goal adds no surge",
			goal: Goal{Replicas: 2, MaxSurge: 1, Paused: true},
			pods: many(2, "a", old),
			want: []string{"hold Paused 2"},
		},
		{
			name: "a paused goal keeps the surge that the update needs",
			goal: Goal{Replicas: 3, MaxSurge: 1, Paused: true},
			pods: slices.Concat(many(3, "a", old), many(1, "b")),
			want: []string{"hold Paused 1", "hold Paused 2"},
		},
		{
			name: "OnDelete updates nothing and creates pods at the new revision, regardless of the partition",
			goal: Goal{Replicas: 3, Partition: 3, MaxUnavailable: 3, MaxSurge: 1, Mode: OnDelete},
			pods: many(2, "a", old),
			want: []string{"Create new Missing"},
		},
		{
			name: "a partition above the number of pods keeps them all",
			goal: Goal{Replicas: 2, Partition: 9, MaxUnavailable: 2},
			pods: many(2, "a", old),
		},
		{
			name: "new pods are never brought back to the old revision",
			goal: Goal{Replicas: 2, Partition: 2, MaxUnavailable: 2},
			pods: many(2, "a"),
		},
		{
			name: "InPlaceOnly leaves pods that can't be updated in place, with a hold",
			goal: Goal{Replicas: 3, MaxUnavailable: 3, Mode: InPlaceOnly},
			pods: slices.Concat(many(2, "a", old, notInPlace), many(1, "b", old)),
			want: []string{"MarkUnready b00 InPlace", "hold NotInPlace 2"},
		},
		{
			name: "InPlaceIfPossible re-creates pods that can't be updated in place",
			goal: Goal{Replicas: 2, MaxUnavailable: 2, Mode: InPlaceIfPossible},
			pods: slices.Concat(many(1, "a", old, notInPlace), many(1, "b", old)),
			want: []string{"Delete a00 Recreate", "MarkUnready b00 InPlace"},
		},
		{
			name: "ReCreate doesn't update in place, although it could",
			goal: Goal{Replicas: 1, MaxUnavailable: 1, Mode: ReCreate},
			pods: many(1, "a", old),
			want: []string{"Delete a00 Recreate"},
		},
		{
			name: "a pod without the gate is updated in place at once, within the budget",
			goal: Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: many(2, "a", old, ungated),
			want: []string{"UpdateInPlace a00 InPlace", "hold InFlight 1"},
		},
		{
			name: "an update that restarts nothing uses no budget",
			goal: Goal{Replicas: 2, Mode: InPlaceOnly},
			pods: many(2, "a", old, noRestart),
			want: []string{"UpdateInPlace a00 InPlace", "UpdateInPlace a01 InPlace"},
		},
		{
			name: "a marked pod is updated in place, although the budget is used up",
			goal: Goal{Replicas: 3, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: slices.Concat(many(1, "a", old), many(1, "b", unready), many(1, "c", old, notReady)),
			want: []string{"UpdateInPlace c00 InPlace", "hold InFlight 1"},
		},
		{
			name: "a marked pod is released when the goal is paused",
			goal: Goal{Replicas: 1, MaxUnavailable: 1, Mode: InPlaceOnly, Paused: true},
			pods: many(1, "a", old, notReady),
			want: []string{"MarkReady a00 Restored", "hold Paused 1"},
		},
		{
			name: "a marked pod is released when its own revision is rolled out again",
			goal: Goal{Replicas: 1, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: many(1, "a", notReady),
			want: []string{"MarkReady a00 Restored"},
		},
		{
			name: "a marked pod is released when the partition keeps it",
			goal: Goal{Replicas: 1, Partition: 1, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: many(1, "a", old, notReady),
			want: []string{"MarkReady a00 Restored"},
		},
		{
			name: "a marked pod is re-created when its revision can no longer be reached in place",
			goal: Goal{Replicas: 1, Mode: InPlaceIfPossible},
			pods: many(1, "a", old, notReady, notInPlace),
			want: []string{"Delete a00 Recreate"},
		},
		{
			name: "a pod that hangs in its update is updated again to another revision",
			goal: Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: slices.Concat(many(1, "a", old, updating), many(1, "b", unready)),
			want: []string{"UpdateInPlace a00 InPlace"},
		},
		{
			name: "a pod that hangs in its update uses budget",
			goal: Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: slices.Concat(many(1, "a", updating), many(1, "b", old)),
			want: []string{"hold InFlight 1"},
		},
		{
			name: "a pod whose update is done is released, also while paused",
			goal: Goal{Replicas: 1, Mode: InPlaceOnly, Paused: true},
			pods: many(1, "a", updateCompleted),
			want: []string{"MarkReady a00 Updated"},
		},
		{
			name: "an old pod whose update is done and that is to change again is not released in between",
			goal: Goal{Replicas: 1, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: many(1, "a", old, updateCompleted),
			want: []string{"UpdateInPlace a00 InPlace"},
		},
		{
			name: "a new pod is released as soon as nothing holds it",
			goal: Goal{Replicas: 1, Mode: InPlaceOnly},
			pods: many(1, "a", held),
			want: []string{"MarkReady a00 Started"},
		},
		{
			name: "a named pod in the middle of an update is deleted and gets no other step",
			goal: Goal{Replicas: 1, MaxUnavailable: 1, Mode: InPlaceOnly},
			pods: many(1, "a", toDelete, old, notReady),
			want: []string{"Delete a00 Named"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(tc.want, brief(Next(tc.goal, tc.pods, start))))
		})
	}
}

func TestNextExplainsStepsWithTheNumbers(t *testing.T) {
	t.Parallel()
	s := Next(Goal{Replicas: 3, MaxUnavailable: 1}, many(3, "a", old), start)
	require.Equal(t, []Step{{Kind: StepDelete, Key: "a00", Reason: ReasonRecreate, Why: "old revision; 3 available > 2 minimum"}}, s.Steps)
	require.Equal(t, []Hold{{
		Reason: ReasonInFlight, Pods: 2, Why: "2 old pod(s) waiting: 1 updated pod(s) not available yet, at most 1 at a time",
	}}, s.Holds)
}

func TestRecheckIsWhenTimeAloneChangesAPod(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) func(*Pod) { return func(p *Pod) { p.ChangesAt = start.Add(d) } }
	for _, tc := range []struct {
		name string
		pods []Pod
		want time.Duration
	}{
		{"no pod changes with time", many(2, "a"), 0},
		{"the earliest change counts", []Pod{pod("a", at(9*time.Second)), pod("b", at(4*time.Second))}, 4 * time.Second},
		{"a change in the past doesn't count", []Pod{pod("a", at(0)), pod("b", at(-time.Second))}, 0},
		{"a terminating pod doesn't count", []Pod{pod("a", inactive, at(time.Second))}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Next(Goal{Replicas: len(tc.pods)}, tc.pods, start).Recheck)
		})
	}
}

func TestDeletionOrder(t *testing.T) {
	t.Parallel()
	later := start.Add(time.Hour)
	for _, tc := range []struct {
		name          string
		first, second func(*Pod)
	}{
		{"without node goes before assigned", func(p *Pod) { p.Rank.Assigned = false }, unready},
		{"pending goes before unknown", func(p *Pod) { p.Rank.Phase = corev1.PodPending }, func(p *Pod) { p.Rank.Phase = corev1.PodUnknown }},
		{"unknown goes before running", func(p *Pod) { p.Rank.Phase = corev1.PodUnknown }, unready},
		{"not available goes before available", notAvailable, func(p *Pod) { p.Rank.Cost = -9 }},
		{"not ready goes before ready", unready, notAvailable},
		{"lower cost goes before a fuller node", func(p *Pod) { p.Rank.Cost = -1 }, func(p *Pod) { p.Rank.Node = "full" }},
		{"a fuller node goes before a shorter time of being ready", func(p *Pod) { p.Rank.Node = "full" }, func(p *Pod) { p.Rank.ReadySince = later }},
		{"ready for a shorter time goes before more restarts", func(p *Pod) { p.Rank.ReadySince = later }, func(p *Pod) { p.Rank.Restarts = 9 }},
		{"ready since an unknown time goes first", func(p *Pod) { p.Rank.ReadySince = time.Time{} }, func(p *Pod) { p.Rank.ReadySince = later }},
		{"more restarts goes before newer", func(p *Pod) { p.Rank.Restarts = 1 }, func(p *Pod) { p.Rank.Created = later }},
		{"newer goes before older", func(p *Pod) { p.Rank.Created = later }, func(p *Pod) { p.Key = "a" }},
		{"the key decides between equals", func(p *Pod) { p.Key = "a" }, func(p *Pod) { p.Key = "z" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			full := func(p *Pod) { p.Rank.Node = "full" }
			first, second := pod("k1", tc.first), pod("k0", tc.second)
			keep := []Pod{pod("k2", full, func(p *Pod) { p.Rank.Cost = 7 })}
			s := Next(Goal{Replicas: 2, MaxUnavailable: 2}, append(keep, second, first), start)
			require.Equal(t, []string{"Delete " + first.Key + " ScaleIn"}, brief(s))
		})
	}
}

func TestScaleInSpreadsOverTopology(t *testing.T) {
	t.Parallel()
	in := func(zone, node string) func(*Pod) {
		return func(p *Pod) { p.Rank.Node, p.Rank.Domains = node, []string{zone} }
	}
	pods := []Pod{
		pod("a", in("z1", "n1")), pod("b", in("z1", "n2")), pod("c", in("z1", "n2")), pod("d", in("z1", "n3")),
		pod("e", in("z2", "n4")), pod("f", in("z2", "n4")),
	}
	s := Next(Goal{Replicas: 3, MaxUnavailable: 3}, pods, start)
	require.Equal(t, []string{"Delete b ScaleIn", "Delete c ScaleIn", "Delete a ScaleIn"}, brief(s),
		"the fuller zone first, and the fuller node within it")
}

func TestUpdateOrder(t *testing.T) {
	t.Parallel()
	later := start.Add(time.Hour)
	for _, tc := range []struct {
		name          string
		first, second func(*Pod)
	}{
		{"in the middle of an update goes first", notReady, order(-9)},
		{"the caller's order goes before state", order(-1), unready},
		{"without node goes before assigned", func(p *Pod) { p.Rank.Assigned = false }, unready},
		{"pending goes before running", func(p *Pod) { p.Rank.Phase = corev1.PodPending }, unready},
		{"not ready goes before ready", unready, notAvailable},
		{"ready for a shorter time goes before more restarts", func(p *Pod) { p.Rank.ReadySince = later }, func(p *Pod) { p.Rank.Restarts = 9 }},
		{"more restarts goes before newer", func(p *Pod) { p.Rank.Restarts = 1 }, func(p *Pod) { p.Rank.Created = later }},
		{"deletion cost doesn't count", func(p *Pod) { p.Key = "a" }, func(p *Pod) { p.Rank.Cost = -9 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			first, second := pod("k1", old, tc.first), pod("k0", old, tc.second)
			s := Next(Goal{Replicas: 2, Partition: 1, MaxUnavailable: 2, Mode: InPlaceOnly}, []Pod{second, first}, start)
			require.Len(t, s.Steps, 1)
			require.Equal(t, first.Key, s.Steps[0].Key)
		})
	}
}

func TestMaxCreates(t *testing.T) {
	t.Parallel()
	const all = 2_000_000_000
	some := slotsOf(0, "s0", "s1", "s2")
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			"without slots",
			Goal{Replicas: all, Partition: all / 2, MaxSurge: all},
			nil,
			[]string{"1000 create", "hold Burst 1999999000"},
		}, {
			"beyond existing pods",
			Goal{Replicas: all},
			many(5, "a"),
			[]string{"1000 create", "hold Burst 1999998995"},
		}, {
			"within a lower limit",
			Goal{Replicas: all, ScaleMaxUnavailable: new(2)},
			nil,
			[]string{"2 create", "hold ScaleLimit 1999999998"},
		}, {
			"in slots, only a few of which are listed",
			Goal{Replicas: all, Slots: some},
			nil,
			[]string{"3 create", "hold Burst 1999999000"},
		}, {
			"in slots, in order",
			Goal{Replicas: all, Slots: some, Ordered: true},
			nil,
			[]string{"1 create"},
		}, {
			"in slots, in order, while the first one is not available",
			Goal{Replicas: all, Slots: some, Ordered: true},
			[]Pod{in("s0", unready)},
			[]string{"hold InOrder 1999999999"},
		}, {
			"slots that are not listed count for the budget",
			Goal{Replicas: 10, Slots: some, MaxUnavailable: 2, ScaleMaxUnavailable: new(0)},
			[]Pod{in("s0", old), in("s1", old), in("s2", old)},
			[]string{"hold Budget 3", "hold ScaleLimit 7"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := Next(tc.goal, tc.pods, start)
			var got []string
			if n := len(d.Of(StepCreate)); n > 0 {
				got = append(got, fmt.Sprintf("%d create", n))
			}
			for _, h := range d.Holds {
				got = append(got, fmt.Sprintf("hold %s %d", h.Reason, h.Pods))
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func BenchmarkNext(b *testing.B) {
	for _, n := range []int{100, 5000, 10000} {
		pods := make([]Pod, n)
		for i := range pods {
			pods[i] = pod(fmt.Sprintf("p%05d", i), func(p *Pod) {
				p.Old = i%3 == 0
				p.Rank.Node = fmt.Sprintf("n%d", i%200)
				p.Rank.Created = start.Add(time.Duration(i*7919%n) * time.Second)
				p.Rank.ReadySince = p.Rank.Created
			})
		}
		for _, bc := range []struct {
			name string
			goal Goal
		}{
			{"update", Goal{Replicas: n, MaxUnavailable: n / 5, Mode: InPlaceIfPossible}},
			{"scale-in", Goal{Replicas: n / 2, MaxUnavailable: n / 5, Mode: InPlaceIfPossible}},
			{"rest", Goal{Replicas: n, Partition: n, Mode: InPlaceIfPossible}},
		} {
			b.Run(fmt.Sprintf("pods=%d/%s", n, bc.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Next(bc.goal, pods, start)
				}
			})
		}
	}
}
