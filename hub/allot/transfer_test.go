package allot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flotilla-io/flotilla/hub/allot"
)

// acked returns a holding whose last grant is acknowledged.
func acked(cluster string, target, replicas, available int) allot.Holding {
	return allot.Holding{
		Key: allot.Key{Subset: cluster, Cluster: cluster}, Target: target, Acked: true, Available: available,
		Grant: allot.Grant{Replicas: replicas, Upper: replicas, Lower: replicas},
	}
}

// sent returns a holding whose last grant is not acknowledged: the member may act on anything from lower to upper.
func sent(cluster string, target, replicas, available, lower, upper int) allot.Holding {
	h := acked(cluster, target, replicas, available)
	h.Acked, h.Grant.Lower, h.Grant.Upper = false, lower, upper
	return h
}

func dark(h allot.Holding) allot.Holding {
	h.Dark = true
	return h
}

// grants formats steps in one line: "7 [7,10] 3 [0,3]".
func grants(steps []allot.Step) string {
	var words []string
	for _, s := range steps {
		words = append(words, fmt.Sprintf("%d [%d,%d]", s.Replicas, s.Lower, s.Upper))
	}
	return strings.Join(words, " ")
}

func whys(steps []allot.Step) []string {
	var lines []string
	for _, s := range steps {
		if s.Why != "" {
			lines = append(lines, s.Why)
		}
	}
	return lines
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		limits   allot.Limits
		holdings []allot.Holding
		want     string
		whys     []string
	}{
		{
			"a new object gets all of its replicas at once",
			allot.Limits{Desired: 10},
			[]allot.Holding{acked("east", 6, 0, 0), acked("west", 4, 0, 0)},
			"6 [0,6] 4 [0,4]",
			[]string{"grows from 0 to 6 in east", "grows from 0 to 4 in west"},
		}, {
			"a scale-out is done at once",
			allot.Limits{Desired: 15, MaxSurge: 4},
			[]allot.Holding{acked("east", 9, 6, 6), acked("west", 6, 4, 4)},
			"9 [6,9] 6 [4,6]",
			[]string{"grows from 6 to 9 in east", "grows from 4 to 6 in west"},
		}, {
			"a scale-in is done at once when the pods that remain are available",
			allot.Limits{Desired: 6},
			[]allot.Holding{acked("east", 3, 5, 5), acked("west", 3, 5, 5)},
			"3 [3,5] 3 [3,5]",
			[]string{"shrinks from 5 to 3 in east", "shrinks from 5 to 3 in west"},
		}, {
			"a scale-in removes unavailable replicas and holds replicas that others lack",
			allot.Limits{Desired: 6},
			[]allot.Holding{acked("east", 3, 5, 5), acked("west", 3, 5, 1)},
			"5 [5,5] 3 [3,5]",
			[]string{"holds 2 in east until 2 more are available in west", "shrinks from 5 to 3 in west"},
		}, {
			"a move grows the destination within the surge and holds the source",
			allot.Limits{Desired: 10, MaxSurge: 3},
			[]allot.Holding{acked("east", 6, 10, 10), acked("west", 4, 0, 0)},
			"10 [10,10] 3 [0,3]",
			[]string{
				"holds 4 in east until 4 more are available in west",
				"grows from 0 to 3 of 4 in west: at most 13 may run in total",
			},
		}, {
			"the source shrinks by the replicas available at the destination",
			allot.Limits{Desired: 10, MaxSurge: 3},
			[]allot.Holding{acked("east", 6, 10, 10), acked("west", 4, 3, 2)},
			"8 [8,10] 3 [3,3]",
			[]string{
				"shrinks from 10 to 8 in east, holds 2 in east until 2 more are available in west",
				"waits to grow from 3 to 4 in west: at most 13 may run in total, and up to 13 may be running",
			},
		}, {
			"the message for one replica is in the singular",
			allot.Limits{Desired: 10, MaxSurge: 4},
			[]allot.Holding{acked("east", 6, 7, 7), acked("west", 4, 4, 3)},
			"7 [7,7] 4 [4,4]",
			[]string{"holds 1 in east until 1 more is available in west"},
		}, {
			"a shrink that is not acknowledged makes no room",
			allot.Limits{Desired: 10, MaxSurge: 3},
			[]allot.Holding{sent("east", 6, 7, 10, 7, 10), acked("west", 4, 3, 3)},
			"7 [7,10] 3 [3,3]",
			[]string{
				"holds 1 in east until 1 more is available in west",
				"waits to grow from 3 to 4 in west: at most 13 may run in total, and up to 13 may be running",
			},
		}, {
			"a growth that is not acknowledged does not count, whatever is reported",
			allot.Limits{Desired: 10, MaxSurge: 4},
			[]allot.Holding{acked("east", 6, 10, 10), sent("west", 4, 4, 900, 0, 4)},
			"10 [10,10] 4 [0,4]",
			[]string{"holds 4 in east until 4 more are available in west"},
		}, {
			"a grant taken back within what may be running anyway needs no room",
			allot.Limits{Desired: 10},
			[]allot.Holding{sent("east", 6, 4, 4, 4, 6), acked("west", 4, 4, 4)},
			"6 [4,6] 4 [4,4]",
			[]string{"grows from 4 to 6 in east"},
		}, {
			"a cluster grows into what the others leave even while too many may be running",
			allot.Limits{Desired: 5},
			[]allot.Holding{sent("east", 5, 1, 1, 1, 8), acked("west", 0, 1, 1)},
			"4 [1,8] 1 [1,1]",
			[]string{
				"grows from 1 to 4 of 5 in east: at most 5 may run in total",
				"holds 1 in west until 4 more are available in east",
			},
		}, {
			"nothing grows while more may be running than allowed",
			allot.Limits{Desired: 5},
			[]allot.Holding{sent("east", 5, 3, 3, 3, 5), sent("west", 0, 2, 2, 2, 5)},
			"3 [3,5] 2 [2,5]",
			[]string{
				"waits to grow from 3 to 5 in east: at most 5 may run in total, and up to 10 may be running",
				"holds 2 in west until 2 more are available in east",
			},
		}, {
			"maxUnavailable lets the source shrink first",
			allot.Limits{Desired: 10, MaxUnavailable: 2},
			[]allot.Holding{acked("east", 6, 10, 10), acked("west", 4, 0, 0)},
			"8 [8,10] 0 [0,0]",
			[]string{
				"shrinks from 10 to 8 in east, holds 2 in east until 2 more are available in west",
				"waits to grow from 0 to 4 in west: at most 10 may run in total, and up to 10 may be running",
			},
		}, {
			"I5: without a destination nothing shrinks, available or not",
			allot.Limits{Desired: 10, MaxUnavailable: 5},
			[]allot.Holding{acked("east", 0, 10, 2)},
			"10 [10,10]",
			[]string{"holds 10 in east: no cluster that answers can take them"},
		}, {
			"I5: a destination that does not answer does not count",
			allot.Limits{Desired: 5, MaxUnavailable: 5},
			[]allot.Holding{dark(acked("east", 5, 5, 5)), acked("west", 0, 5, 5)},
			"5 [5,5] 5 [5,5]",
			[]string{"holds 5 in west: no cluster that answers can take them"},
		}, {
			"I5: replicas unallocated elsewhere are kept, and maxUnavailable does not apply to them",
			allot.Limits{Desired: 10, MaxSurge: 3, MaxUnavailable: 5},
			[]allot.Holding{acked("east", 0, 7, 7), acked("west", 3, 3, 3)},
			"7 [7,7] 3 [3,3]",
			[]string{"holds 7 in east: 7 would be missing, and no cluster can take them"},
		}, {
			"a maximum that was lowered is reached, though no other cluster can take the replicas",
			allot.Limits{Desired: 9, Barred: 2},
			[]allot.Holding{acked("east", 3, 3, 3), acked("west", 4, 6, 6)},
			"3 [3,3] 4 [4,6]",
			[]string{"shrinks from 6 to 4 in west"},
		}, {
			"a maximum that was lowered waits for replicas that another cluster may take",
			allot.Limits{Desired: 9, Barred: 1, MaxSurge: 1},
			[]allot.Holding{acked("east", 4, 3, 3), acked("west", 4, 6, 6)},
			"4 [3,4] 5 [5,6]",
			[]string{"grows from 3 to 4 in east", "shrinks from 6 to 5 in west, holds 1 in west until 1 more is available in east"},
		}, {
			"a maximum of 0 empties the cluster",
			allot.Limits{Desired: 4, Barred: 4},
			[]allot.Holding{acked("east", 0, 4, 4)},
			"0 [0,4]",
			[]string{"shrinks from 4 to 0 in east"},
		}, {
			"I5: lost replicas are kept, besides those beyond a maximum",
			allot.Limits{Desired: 10, Barred: 2, MaxUnavailable: 5},
			[]allot.Holding{acked("east", 0, 4, 4), acked("west", 4, 6, 6)},
			"2 [2,4] 6 [6,6]",
			[]string{
				"shrinks from 4 to 2 in east, holds 2 in east: 2 would be missing, and no cluster can take them",
				"holds 2 in west: 2 would be missing, and no cluster can take them",
			},
		}, {
			"an object that is scaled to 0 is emptied",
			allot.Limits{},
			[]allot.Holding{acked("east", 0, 6, 6), acked("west", 0, 4, 1)},
			"0 [0,6] 0 [0,4]",
			[]string{"shrinks from 6 to 0 in east", "shrinks from 4 to 0 in west"},
		}, {
			"a dark cluster keeps its grant, and the replicas that it may be running count",
			allot.Limits{Desired: 10, MaxSurge: 1},
			[]allot.Holding{dark(sent("east", 4, 5, 5, 5, 7)), acked("west", 6, 4, 4)},
			"5 [5,7] 4 [4,4]",
			[]string{
				"keeps 5 instead of 4 in east: it does not answer",
				"waits to grow from 4 to 6 in west: at most 11 may run in total, and up to 11 may be running",
			},
		}, {
			"frozen replicas beyond the desired number do not keep others from their targets",
			allot.Limits{Desired: 5},
			[]allot.Holding{dark(acked("east", 6, 6, 6)), acked("west", 2, 1, 1)},
			"6 [6,6] 2 [1,2]",
			[]string{"grows from 1 to 2 in west"},
		}, {
			"I8: once nothing changes, there is no step and no reason",
			allot.Limits{Desired: 10, MaxSurge: 3},
			[]allot.Holding{acked("east", 6, 6, 6), acked("west", 4, 4, 1)},
			"6 [6,6] 4 [4,4]",
			nil,
		}, {
			"impossible numbers are bounded",
			allot.Limits{Desired: 4, MaxSurge: -3, MaxUnavailable: -3},
			[]allot.Holding{acked("east", -1, 4, 1<<40), sent("west", 4, 0, -9, 5, -5)},
			"4 [4,4] 0 [0,0]",
			[]string{
				"holds 4 in east until 4 more are available in west",
				"waits to grow from 0 to 4 in west: at most 4 may run in total, and up to 4 may be running",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := allot.Transfer(c.limits, c.holdings)
			require.Equal(t, c.want, grants(got))
			require.Equal(t, c.whys, whys(got))
			for i, s := range got {
				require.Equal(t, s.Changed, s.Replicas != c.holdings[i].Grant.Replicas)
			}
		})
	}
}

// I6: a cluster that doesn't answer keeps its grant, even if its target or what is available there has changed.
func TestI06ADarkClusterNeitherGrowsNorShrinks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dark, answers allot.Holding
		want          string
	}{
		"it would shrink":                    {dark: acked("dark", 2, 6, 6), answers: acked("answers", 8, 8, 8), want: "6 [6,6] 8 [8,8]"},
		"none of its replicas are available": {dark: acked("dark", 2, 6, 0), answers: acked("answers", 8, 8, 8), want: "6 [6,6] 8 [8,8]"},
		"no replicas are desired there":      {dark: acked("dark", 0, 6, 6), answers: acked("answers", 10, 10, 10), want: "6 [6,6] 10 [10,10]"},
		"it has not acknowledged a shrink":   {dark: sent("dark", 2, 4, 4, 4, 6), answers: acked("answers", 8, 8, 8), want: "4 [4,6] 8 [8,8]"},
		"it would grow":                      {dark: acked("dark", 6, 2, 2), answers: acked("answers", 4, 4, 4), want: "2 [2,2] 4 [4,4]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := allot.Limits{Desired: 10, MaxSurge: 10, MaxUnavailable: 10}
			require.Equal(t, tt.want, grants(allot.Transfer(l, []allot.Holding{dark(tt.dark), tt.answers})))
			lit := allot.Transfer(l, []allot.Holding{tt.dark, tt.answers})
			require.True(t, lit[0].Changed, "it changes if the cluster answers")
		})
	}
}

// One step of any transfer preserves the sums that I3 and I4 depend on, whatever was stored and reported before.
func TestTransferProperties(t *testing.T) {
	t.Parallel()
	number := rapid.IntRange(-2, 30)
	rapid.Check(t, func(t *rapid.T) {
		l := allot.Limits{Desired: number.Draw(t, "desired"), Barred: number.Draw(t, "barred"), MaxSurge: number.Draw(t, "surge"), MaxUnavailable: number.Draw(t, "unavailable")}
		var before []allot.Holding
		for i := range rapid.IntRange(0, 6).Draw(t, "clusters") {
			before = append(before, allot.Holding{
				Key: allot.Key{Cluster: fmt.Sprintf("c%d", i)}, Target: number.Draw(t, "target"), Available: number.Draw(t, "available"),
				Grant: allot.Grant{Replicas: number.Draw(t, "replicas"), Upper: number.Draw(t, "upper"), Lower: number.Draw(t, "lower")},
				Acked: rapid.Bool().Draw(t, "acked"), Dark: rapid.Bool().Draw(t, "dark"),
			})
		}
		steps := allot.Transfer(l, before)

		owed := max(l.Desired, 0) - max(min(l.Barred, l.Desired), 0)
		place := slices.ContainsFunc(before, func(h allot.Holding) bool { return h.Target > 0 && !h.Dark })
		var wanted, upperBefore, upperAfter, servingBefore, servingAfter int
		for i, h := range before {
			s, n := steps[i], max(h.Grant.Replicas, 0)
			upper, lower := max(h.Grant.Upper, n), max(min(h.Grant.Lower, n), 0)
			if h.Acked {
				upper, lower = n, n
			}
			require.True(t, 0 <= s.Lower && s.Lower <= s.Replicas && s.Replicas <= s.Upper, "bounds hold the number: %+v", s)
			require.True(t, s.Lower <= lower && s.Upper >= upper, "bounds widen until the member acknowledges: %+v", s)
			require.True(t, min(n, max(h.Target, 0)) <= s.Replicas && s.Replicas <= max(n, h.Target), "a step goes toward its target")
			require.Equal(t, s.Replicas != n, s.Changed, "I8: the same number is not written again")
			require.False(t, h.Dark && s.Changed, "I6: a dark cluster keeps its grant")
			require.False(t, owed > 0 && !place && s.Replicas < n, "I5: without a destination only replicas beyond a maximum are removed")
			require.Equal(t, s.Changed || s.Replicas != max(h.Target, 0), s.Why != "", "replicas that move or wait have a reason")
			wanted += max(h.Target, 0)
			upperBefore, upperAfter = upperBefore+upper, upperAfter+s.Upper
			servingBefore += max(min(lower, h.Available), 0)
			servingAfter += max(min(s.Lower, h.Available), 0)
		}
		desired := max(l.Desired, 0)
		most := max(desired, wanted) + max(l.MaxSurge, 0)
		require.LessOrEqual(t, upperAfter, max(upperBefore, most), "I3: growth stays within the surge")
		least := owed
		if wanted >= owed {
			least -= max(l.MaxUnavailable, 0)
		}
		require.GreaterOrEqual(t, servingAfter, min(servingBefore, least), "I4: a shrink leaves enough")
	})
}

func TestClampBoundsWhatMembersReport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reported, want int
		plausible      bool
	}{
		{0, 0, true},
		{150_000, 150_000, true},
		{1_000_000, 1_000_000, true},
		{-1, 0, false},
		{1 << 31, 1_000_000, false},
	} {
		n, plausible := allot.Clamp(c.reported)
		require.Equal(t, c.want, n)
		require.Equal(t, c.plausible, plausible)
	}
}

func TestDefaultSurgeIsAQuarterRoundedUp(t *testing.T) {
	t.Parallel()
	for desired, want := range map[int]int{-4: 0, 0: 0, 1: 1, 4: 1, 5: 2, 10: 3, 100: 25} {
		require.Equal(t, want, allot.DefaultSurge(desired), "of %d", desired)
	}
}

func BenchmarkTransfer(b *testing.B) {
	b.Run("clusters=1000/subsets=10", func(b *testing.B) {
		var holdings []allot.Holding
		desired := 0
		for i := range 10_000 {
			h := acked(fmt.Sprintf("cluster-%04d", i%1000), 5-i%3, 3+i%3, 3)
			h.Dark = i%50 == 0
			holdings = append(holdings, h)
			desired += h.Target
		}
		l := allot.Limits{Desired: desired, MaxSurge: allot.DefaultSurge(desired)}
		b.ReportAllocs()
		for b.Loop() {
			if steps := allot.Transfer(l, holdings); len(steps) != len(holdings) {
				b.Fatal("steps are missing")
			}
		}
	})
}
