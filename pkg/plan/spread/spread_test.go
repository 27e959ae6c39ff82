package spread_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/flotilla-io/flotilla/pkg/plan/spread"
)

func intOrPercent(s string) *intstr.IntOrString {
	v := intstr.Parse(s)
	return &v
}

// The short forms of subsets in the tables below.

func share(name string, current int) spread.Subset {
	return spread.Subset{Name: name, Current: current}
}

func named(name, replicas string, current int) spread.Subset {
	return spread.Subset{Name: name, Replicas: intOrPercent(replicas), Current: current}
}

func withBounds(name, least, most string) spread.Subset {
	s := spread.Subset{Name: name}
	if least != "" {
		s.Min = intOrPercent(least)
	}
	if most != "" {
		s.Max = intOrPercent(most)
	}
	return s
}

func withFloor(s spread.Subset, floor int) spread.Subset { s.Floor = floor; return s }

func withCeiling(s spread.Subset, ceiling int) spread.Subset { s.Ceiling = &ceiling; return s }

func TestDivideByNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		total   int
		subsets []spread.Subset
		want    spread.Division
	}{
		{
			"subsets without numbers share evenly", 9,
			[]spread.Subset{share("a", 0), share("b", 0), share("c", 0)},
			spread.Division{Targets: []int{3, 3, 3}},
		}, {
			"odd replicas of a new object go to the last names first", 5,
			[]spread.Subset{share("a", 0), share("b", 0), share("c", 0)},
			spread.Division{Targets: []int{1, 2, 2}},
		}, {
			"odd replicas stay where most replicas are now", 5,
			[]spread.Subset{share("a", 4), share("b", 1), share("c", 2)},
			spread.Division{Targets: []int{2, 1, 2}},
		}, {
			"numbers and percentages are assigned, and the rest is shared", 10,
			[]spread.Subset{named("a", "60%", 0), share("b", 0), named("c", "1", 0)},
			spread.Division{Targets: []int{6, 3, 1}},
		}, {
			"a percentage is rounded half up", 10,
			[]spread.Subset{named("a", "25%", 0), named("b", "24%", 0), share("c", 0)},
			spread.Division{Targets: []int{3, 2, 5}},
		}, {
			"numbers for all subsets that add up to the total are given", 11,
			[]spread.Subset{named("a", "60%", 0), named("b", "40%", 0)},
			spread.Division{Targets: []int{7, 4}},
		}, {
			"numbers beyond the total change nothing", 4,
			[]spread.Subset{named("a", "3", 2), named("b", "2", 1), share("c", 3)},
			spread.Division{
				Targets: []int{2, 1, 3}, Ineffective: true,
				Why: "subsets ask for 5 replicas, more than the 4 there are",
			},
		}, {
			"two halves of an odd total are rounded together, and the odd replica stays where most replicas are", 7,
			[]spread.Subset{named("a", "50%", 3), named("b", "50%", 4)},
			spread.Division{Targets: []int{3, 4}},
		}, {
			"thirds that come to 99% contradict a total of 100", 100,
			[]spread.Subset{named("a", "33%", 0), named("b", "33%", 0), named("c", "33%", 0)},
			spread.Division{
				Targets: []int{0, 0, 0}, Ineffective: true,
				Why: "subsets ask for 99 of 100 replicas, and none is left to take the rest",
			},
		}, {
			"thirds that come to 100% are all of 10", 10,
			[]spread.Subset{named("a", "33%", 0), named("b", "33%", 0), named("c", "34%", 0)},
			spread.Division{Targets: []int{3, 3, 4}},
		}, {
			"halves of an odd total leave nothing for a third subset", 5,
			[]spread.Subset{named("a", "50%", 0), named("b", "50%", 0), share("c", 0)},
			spread.Division{Targets: []int{3, 2, 0}},
		}, {
			"numbers for all subsets below the total change nothing", 9,
			[]spread.Subset{named("a", "3", 2), named("b", "2", 1)},
			spread.Division{
				Targets: []int{2, 1}, Ineffective: true,
				Why: "subsets ask for 5 of 9 replicas, and none is left to take the rest",
			},
		}, {
			"an invalid number changes nothing", 9,
			[]spread.Subset{named("a", "3", 2), named("b", "many", 1)},
			spread.Division{
				Targets: []int{2, 1}, Ineffective: true,
				Why: `subset b: replicas: read "many": it is neither a number nor a whole percentage from 0% to 100%`,
			},
		}, {
			"scaling to 0 empties every subset", 0,
			[]spread.Subset{named("a", "60%", 6), share("b", 4)},
			spread.Division{Targets: []int{0, 0}},
		}, {
			"a negative total counts as 0", -5,
			[]spread.Subset{share("a", 6), share("b", 4)},
			spread.Division{Targets: []int{0, 0}},
		}, {
			"without subsets all replicas are unallocated", 2, nil,
			spread.Division{
				Targets: []int{}, Unallocated: 2,
				Why: "2 of 2 replicas are unallocated: no subset may take more",
			},
		}, {
			"a floor above its even share is kept and the others share the rest", 10,
			[]spread.Subset{withFloor(share("a", 6), 6), share("b", 0), share("c", 0)},
			spread.Division{Targets: []int{6, 2, 2}},
		}, {
			"replicas that a ceiling rejects go to the others", 10,
			[]spread.Subset{withCeiling(share("a", 0), 1), share("b", 0), share("c", 0)},
			spread.Division{Targets: []int{1, 4, 5}},
		}, {
			"replicas that a named subset can't hold go to the others", 10,
			[]spread.Subset{withCeiling(named("a", "8", 0), 5), share("b", 0)},
			spread.Division{Targets: []int{5, 5}},
		}, {
			"replicas that a named subset can't hold are unallocated when all are named", 10,
			[]spread.Subset{withCeiling(named("a", "8", 0), 5), named("b", "2", 0)},
			spread.Division{
				Targets: []int{5, 2}, Unallocated: 3,
				Why: "3 of 10 replicas are unallocated: no subset may take more",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, gocmp.Diff(c.want, spread.Divide(c.total, c.subsets)))
		})
	}
}

func TestDivideElastic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		total   int
		subsets []spread.Subset
		want    spread.Division
	}{
		{
			"minimums come first, and the list is filled in order", 10,
			[]spread.Subset{withBounds("a", "2", "4"), withBounds("b", "3", "")},
			spread.Division{Targets: []int{4, 6}},
		}, {
			"an early subset is filled before a late one", 6,
			[]spread.Subset{withBounds("a", "2", "4"), withBounds("b", "3", "")},
			spread.Division{Targets: []int{3, 3}},
		}, {
			"minimums are filled in order while replicas last", 4,
			[]spread.Subset{withBounds("a", "2", "4"), withBounds("b", "3", "")},
			spread.Division{Targets: []int{2, 2}},
		}, {
			"the first subset without a maximum takes the rest", 10,
			[]spread.Subset{share("a", 0), withBounds("b", "3", "")},
			spread.Division{Targets: []int{7, 3}},
		}, {
			"minimum and maximum can be percentages", 10,
			[]spread.Subset{withBounds("a", "10%", "25%"), withBounds("b", "", "")},
			spread.Division{Targets: []int{3, 7}},
		}, {
			"replicas beside a maximum are both minimum and maximum", 10,
			[]spread.Subset{withBounds("a", "", "4"), named("b", "3", 0), share("c", 0)},
			spread.Division{Targets: []int{4, 3, 3}},
		}, {
			"a minimum above its maximum counts as the maximum", 10,
			[]spread.Subset{withBounds("a", "8", "4"), share("b", 0)},
			spread.Division{Targets: []int{4, 6}},
		}, {
			"replicas beyond every maximum are unallocated", 10,
			[]spread.Subset{withBounds("a", "", "4"), withBounds("b", "", "3")},
			spread.Division{
				Targets: []int{4, 3}, Unallocated: 3,
				Why: "3 of 10 replicas are unallocated: no subset may take more",
			},
		}, {
			"a floor counts towards its own minimum", 10,
			[]spread.Subset{withBounds("a", "2", "4"), withFloor(withBounds("b", "3", ""), 1)},
			spread.Division{Targets: []int{4, 6}},
		}, {
			"a floor beyond its maximum is kept at the cost of the others", 10,
			[]spread.Subset{withBounds("a", "2", "9"), withFloor(withBounds("b", "", "3"), 6)},
			spread.Division{Targets: []int{4, 6}},
		}, {
			"a ceiling below the minimum takes precedence", 10,
			[]spread.Subset{withCeiling(withBounds("a", "5", ""), 1), share("b", 0)},
			spread.Division{Targets: []int{1, 9}},
		}, {
			"an invalid maximum changes nothing", 10,
			[]spread.Subset{withBounds("a", "", "101%"), share("b", 7)},
			spread.Division{
				Targets: []int{0, 7}, Ineffective: true,
				Why: `subset a: maxReplicas: read "101%": it is neither a number nor a whole percentage from 0% to 100%`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, gocmp.Diff(c.want, spread.Divide(c.total, c.subsets)))
		})
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		total int
		want  int
	}{
		{"0", 10, 0},
		{"12", 10, 12},
		{"0%", 10, 0},
		{"100%", 10, 10},
		{"5%", 10, 1},
		{"4%", 10, 0},
		{"50%", 5, 3},
		{"33%", 2_000_000_000, 660_000_000},
		{"50%", -4, 0},
	} {
		got, err := spread.Resolve(*intOrPercent(c.in), c.total)
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, got, "%s of %d", c.in, c.total)
	}
	for _, in := range []string{"-1", "101%", "-1%", "2.5%", "%", "x", "1e3%", "+5%", "99999999999999999999%"} {
		_, err := spread.Resolve(*intOrPercent(in), 10)
		require.Error(t, err, in)
	}
}

func TestPartitionIsCappedToTheReplicas(t *testing.T) {
	t.Parallel()
	require.Equal(t, 5, spread.Partition(8, 5))
	require.Equal(t, 3, spread.Partition(3, 5))
	require.Equal(t, 0, spread.Partition(-1, 5))
}

func TestEvenFillsToOneLevel(t *testing.T) {
	t.Parallel()
	free := spread.Bounds{Max: spread.Unlimited}
	for _, c := range []struct {
		name   string
		total  int
		takers []spread.Bounds
		want   []int
	}{
		{"no shares", 3, nil, []int{}},
		{"the first in order take the odd replicas", 10, []spread.Bounds{free, free, free}, []int{4, 3, 3}},
		{"minimum and maximum are kept", 10, []spread.Bounds{{0, 2}, free, {5, spread.Unlimited}}, []int{2, 3, 5}},
		{"a subset at its maximum passes odd replicas on", 8, []spread.Bounds{{0, 2}, free, free}, []int{2, 3, 3}},
		{"minimums are assigned even when they exceed the total", 3, []spread.Bounds{{2, 4}, {3, 3}, free}, []int{2, 3, 0}},
		{"no share exceeds its maximum", 30, []spread.Bounds{{2, 4}, {3, 3}}, []int{4, 3}},
		{"a maximum below the minimum counts as the minimum", 9, []spread.Bounds{{4, 1}, free}, []int{4, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, spread.Even(c.total, c.takers, cmp.Compare[int]))
		})
	}
}

// TestEvenProperties: shares differ by at most one unless bounds force more, and their sum is exact.
func TestEvenProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		takers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) spread.Bounds {
			least := rapid.IntRange(0, 50).Draw(t, "min")
			return spread.Bounds{Min: least, Max: least + rapid.OneOf(rapid.IntRange(0, 50), rapid.Just(1<<40)).Draw(t, "more")}
		}), 1, 20).Draw(t, "takers")
		total := rapid.IntRange(0, 2000).Draw(t, "total")
		got := spread.Even(total, takers, cmp.Compare[int])

		sum, least, most := 0, 0, 0
		for i, b := range takers {
			require.GreaterOrEqual(t, got[i], b.Min)
			require.LessOrEqual(t, got[i], b.Max)
			sum, least, most = sum+got[i], least+b.Min, most+b.Max
		}
		require.Equal(t, min(max(total, least), most), sum)
		for i, a := range takers {
			for j, b := range takers {
				if got[i] > got[j]+1 {
					require.True(t, got[i] == a.Min || got[j] == b.Max, "taker %d has %d and %d has %d", i, got[i], j, got[j])
				}
			}
		}
	})
}

// TestDivideIsStable: a division is stable once it has been applied, and one replica more or less moves no other.
func TestDivideIsStable(t *testing.T) {
	t.Parallel()
	number := rapid.Custom(func(t *rapid.T) *intstr.IntOrString {
		v := intstr.FromInt32(rapid.Int32Range(0, 12).Draw(t, "n"))
		return rapid.SampledFrom([]*intstr.IntOrString{nil, &v}).Draw(t, "set")
	})
	rapid.Check(t, func(t *rapid.T) {
		byNumber := rapid.Bool().Draw(t, "by number")
		subsets := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) spread.Subset {
			s := spread.Subset{
				Name:    rapid.StringMatching("[a-z]{1,3}").Draw(t, "name"),
				Current: rapid.IntRange(0, 30).Draw(t, "current"),
			}
			if byNumber {
				s.Replicas = number.Draw(t, "replicas")
			} else {
				s.Min, s.Max = number.Draw(t, "min"), number.Draw(t, "max")
			}
			return s
		}), 1, 8, func(s spread.Subset) string { return s.Name }).Draw(t, "subsets")
		total := rapid.IntRange(0, 120).Draw(t, "total")

		first := spread.Divide(total, subsets)
		adopt := func(d spread.Division) {
			for i := range subsets {
				subsets[i].Current = d.Targets[i]
			}
		}
		adopt(first)
		require.Equal(t, first, spread.Divide(total, subsets), "a division that was reached is final")

		next := spread.Divide(total+1, subsets)
		if first.Ineffective || next.Ineffective {
			return
		}
		changed := 0
		for i := range subsets {
			changed += max(next.Targets[i]-first.Targets[i], first.Targets[i]-next.Targets[i])
		}
		require.Equal(t, 1-(next.Unallocated-first.Unallocated), changed, "%v became %v", first, next)

		reversed := slices.Clone(subsets)
		slices.Reverse(reversed)
		if byNumber {
			back := spread.Divide(total, reversed).Targets
			slices.Reverse(back)
			require.Equal(t, first.Targets, back, "the order of the list doesn't matter when subsets have numbers")
		}
	})
}

func TestWeightedSharesByWeights(t *testing.T) {
	t.Parallel()
	free := spread.Bounds{Max: spread.Unlimited}
	for _, tc := range []struct {
		name    string
		total   int
		weights []int
		bounds  []spread.Bounds
		want    []int
	}{
		{"in proportion", 6, []int{2, 1}, []spread.Bounds{free, free}, []int{4, 2}},
		{"rounded to the nearest", 7, []int{2, 1}, []spread.Bounds{free, free}, []int{5, 2}},
		{"the first gets a replica that both are entitled to", 1, []int{1, 1}, []spread.Bounds{free, free}, []int{1, 0}},
		{"a weight of 0 gets nothing", 6, []int{0, 1}, []spread.Bounds{free, free}, []int{0, 6}},
		{"so does a negative weight", 6, []int{-5, 1}, []spread.Bounds{free, free}, []int{0, 6}},
		{"all weights are 0", 6, []int{0, 0}, []spread.Bounds{free, free}, []int{0, 0}},
		{"a share stays at its maximum", 9, []int{7, 2, 1}, []spread.Bounds{{Max: 3}, free, free}, []int{3, 4, 2}},
		{"and keeps its minimum", 9, []int{1, 2, 1}, []spread.Bounds{{Min: 6, Max: 6}, free, free}, []int{6, 2, 1}},
		{"minimums beyond the total stay", 3, []int{1, 1}, []spread.Bounds{{Min: 2, Max: 2}, {Min: 2, Max: 9}}, []int{2, 2}},
		{"the rest beyond all maximums is unassigned", 9, []int{1, 1}, []spread.Bounds{{Max: 2}, {Max: 3}}, []int{2, 3}},
		{"a negative total counts as 0", -1, []int{1, 1}, []spread.Bounds{free, free}, []int{0, 0}},
		{"very large numbers take no longer", 2_000_000_001, []int{1_000_000, 500_000, 1}, []spread.Bounds{free, free, free}, []int{1_333_332_445, 666_666_223, 1_333}},
		{"no subsets get nothing", 5, nil, nil, []int{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, spread.Weighted(tc.total, tc.weights, make([]int, len(tc.weights)), tc.bounds))
		})
	}
}

// TestWeightedProperties: shares add up and keep to their bounds, a larger total makes none smaller, and equal weights are shared as in Even.
func TestWeightedProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		bounds, weights, equal := make([]spread.Bounds, n), make([]int, n), make([]int, n)
		weight := rapid.IntRange(1, 1_000_000).Draw(t, "equal weight")
		least, most := 0, 0
		for i := range bounds {
			from := rapid.SampledFrom([]int{0, 0, 0, 1, 7}).Draw(t, "min")
			bounds[i] = spread.Bounds{Min: from, Max: from + rapid.OneOf(rapid.IntRange(0, 50), rapid.Just(1<<40)).Draw(t, "more")}
			weights[i], equal[i] = rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 1_000_000)).Draw(t, "weight"), weight
			least, most = least+bounds[i].Min, most+bounds[i].Max
		}
		current := rapid.SliceOfN(rapid.IntRange(0, 100), n, n).Draw(t, "current")
		prefer := func(a, b int) int { return cmp.Or(cmp.Compare(current[b], current[a]), cmp.Compare(a, b)) }
		total := rapid.IntRange(0, 500).Draw(t, "total")
		got := spread.Weighted(total, weights, current, bounds)
		more := spread.Weighted(total+1, weights, got, bounds)
		sum := 0
		for i, share := range got {
			require.GreaterOrEqual(t, share, bounds[i].Min)
			require.LessOrEqual(t, share, bounds[i].Max)
			require.GreaterOrEqual(t, more[i], share)
			sum += share
		}
		require.Equal(t, max(min(total, most), least), sum)
		require.Equal(t, spread.Even(total, bounds, prefer), spread.Weighted(total, equal, current, bounds))
		require.Equal(t, got, spread.Weighted(total, weights, got, bounds), "shares that are reached are final")
	})
}
