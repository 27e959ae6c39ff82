package allot_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/flotilla-io/flotilla/hub/allot"
)

func numberOf(s string) *intstr.IntOrString {
	v := intstr.Parse(s)
	return &v
}

func on(cluster string, current int) allot.Member {
	return allot.Member{Cluster: cluster, Current: current}
}

func frozen(cluster string, current int) allot.Member {
	return allot.Member{Cluster: cluster, Current: current, State: allot.Frozen}
}

func draining(cluster string, current int) allot.Member {
	return allot.Member{Cluster: cluster, Current: current, State: allot.Draining}
}

func closed(cluster string, current int) allot.Member {
	return allot.Member{Cluster: cluster, Current: current, State: allot.Closed}
}

func awaited(cluster string) allot.Member {
	return allot.Member{Cluster: cluster, State: allot.Awaited}
}

func limited(cluster string, most int) allot.Member {
	return allot.Member{Cluster: cluster, Cap: &most}
}

func weighted(m allot.Member, weight int) allot.Member {
	m.Weight = &weight
	return m
}

func share(name string, members ...allot.Member) allot.Subset {
	return allot.Subset{Name: name, Members: members}
}

func named(name, replicas string, members ...allot.Member) allot.Subset {
	return allot.Subset{Name: name, Replicas: numberOf(replicas), Members: members}
}

func elastic(name, least, most string, members ...allot.Member) allot.Subset {
	s := allot.Subset{Name: name, Members: members}
	if least != "" {
		s.Min = numberOf(least)
	}
	if most != "" {
		s.Max = numberOf(most)
	}
	return s
}

// summary formats targets in one line: "east=3 west=2". The subset comes first if its name differs from the cluster's.
func summary(targets []allot.Target) string {
	var words []string
	for _, t := range targets {
		name := t.Cluster
		if t.Subset != t.Cluster {
			name = t.Subset + "-" + t.Cluster
		}
		words = append(words, fmt.Sprintf("%s=%d", name, t.Replicas))
	}
	return strings.Join(words, " ")
}

func TestAllocate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		total   int
		subsets []allot.Subset
		want    string
		why     string
	}{
		{
			"percentages are divided as given", 10,
			[]allot.Subset{named("east", "60%", on("east", 0)), named("west", "40%", on("west", 0))},
			"east=6 west=4", "",
		}, {
			"a subset without replicas takes the rest", 10,
			[]allot.Subset{named("east", "70%", on("east", 0)), share("west", on("west", 0))},
			"east=7 west=3", "",
		}, {
			"what exceeds the maximum of the first subset goes to the next", 10,
			[]allot.Subset{elastic("east", "", "4", on("east", 0)), share("west", on("west", 0))},
			"east=4 west=6", "",
		}, {
			"a selected group shares evenly and the odd replica is assigned by name", 10,
			[]allot.Subset{share("all", on("west", 0), on("east", 0), on("north", 0))},
			"all-east=4 all-north=3 all-west=3", "",
		}, {
			"the odd replica of a group stays where it is", 10,
			[]allot.Subset{share("all", on("west", 4), on("east", 3), on("north", 3))},
			"all-east=3 all-north=3 all-west=4", "",
		}, {
			"a group's percentage holds for the group as a whole", 10,
			[]allot.Subset{named("eu", "60%", on("eu1", 0), on("eu2", 0), on("eu3", 0)), share("us", on("us", 0))},
			"eu-eu1=2 eu-eu2=2 eu-eu3=2 us=4", "",
		}, {
			"a group's maximum holds for the group as a whole", 10,
			[]allot.Subset{elastic("eu", "", "5", on("eu1", 0), on("eu2", 0)), share("us", on("us", 0))},
			"eu-eu1=3 eu-eu2=2 us=5", "",
		}, {
			"scaling out skips a frozen cluster", 12,
			[]allot.Subset{share("east", frozen("east", 5)), share("west", on("west", 5))},
			"east=5 west=7", "",
		}, {
			"scaling in skips a frozen cluster", 9,
			[]allot.Subset{share("east", frozen("east", 5)), share("west", on("west", 5))},
			"east=5 west=4", "",
		}, {
			"a frozen member keeps its replicas, and its group shares the rest", 12,
			[]allot.Subset{share("all", frozen("a", 2), on("b", 2), on("c", 2))},
			"all-a=2 all-b=5 all-c=5", "",
		}, {
			"replicas that a frozen cluster lacks are unallocated if all subsets have fixed replicas", 20,
			[]allot.Subset{named("east", "60%", frozen("east", 6)), named("west", "40%", on("west", 4))},
			"east=6 west=8", "6 of 20 replicas are unallocated: east is frozen at 6",
		}, {
			"replicas that a frozen cluster has too many are reported as excess", 5,
			[]allot.Subset{named("east", "60%", frozen("east", 6)), named("west", "40%", on("west", 4))},
			"east=6 west=2", "excess replicas remain (3 more than 5): east is frozen at 6",
		}, {
			"a draining cluster is emptied into the others", 10,
			[]allot.Subset{share("all", draining("a", 4), on("b", 3), on("c", 3))},
			"all-a=0 all-b=5 all-c=5", "",
		}, {
			"a closed cluster does not grow", 20,
			[]allot.Subset{share("all", closed("a", 4), on("b", 3), on("c", 3))},
			"all-a=4 all-b=8 all-c=8", "",
		}, {
			"a closed cluster shrinks like any other", 6,
			[]allot.Subset{share("all", closed("a", 4), on("b", 3), on("c", 3))},
			"all-a=2 all-b=2 all-c=2", "",
		}, {
			"replicas that a closed cluster lacks are unallocated if all subsets have fixed replicas", 20,
			[]allot.Subset{named("east", "60%", closed("east", 6)), named("west", "40%", on("west", 4))},
			"east=6 west=8", "6 of 20 replicas are unallocated: east takes no more replicas",
		}, {
			"fixed replicas are reserved for an awaited cluster", 10,
			[]allot.Subset{named("east", "60%", awaited("east")), share("west", on("west", 0))},
			"east=0 west=4", "6 of 10 replicas are unallocated: 6 reserved for east, which has not joined",
		}, {
			"an awaited cluster without fixed replicas leaves its share to the others", 10,
			[]allot.Subset{share("east", awaited("east")), share("west", on("west", 0))},
			"east=0 west=10", "",
		}, {
			"in a group others take the place of an awaited cluster", 10,
			[]allot.Subset{named("eu", "6", awaited("eu1"), on("eu2", 0)), share("us", on("us", 0))},
			"eu-eu1=0 eu-eu2=6 us=4", "",
		}, {
			"others take the place of an awaited cluster up to its maximum", 10,
			[]allot.Subset{elastic("east", "2", "4", awaited("east")), elastic("west", "", "7", on("west", 0))},
			"east=0 west=7", "3 of 10 replicas are unallocated: east has not joined",
		}, {
			"fixed replicas of a draining cluster are unallocated", 10,
			[]allot.Subset{named("east", "6", draining("east", 6)), named("west", "4", on("west", 4))},
			"east=0 west=4", "6 of 10 replicas are unallocated: east is draining",
		}, {
			"replicas that a limited cluster can't take go to the others", 10,
			[]allot.Subset{share("all", limited("a", 1), on("b", 0), on("c", 0))},
			"all-a=1 all-b=5 all-c=4", "",
		}, {
			"replicas beyond every limit are unallocated", 10,
			[]allot.Subset{share("all", limited("a", 1), limited("b", 4))},
			"all-a=1 all-b=4", "5 of 10 replicas are unallocated: a is limited to 1, b is limited to 4",
		}, {
			"a cluster's limit applies to all subsets in it together, the first subset first", 10,
			[]allot.Subset{named("a", "4", limited("east", 6)), named("b", "4", limited("east", 6)), share("c", on("west", 0))},
			"a-east=4 b-east=2 c-west=4", "",
		}, {
			"a subset that selects no cluster gets nothing", 10,
			[]allot.Subset{named("none", "6"), share("west", on("west", 0))},
			"west=10", "",
		}, {
			"numbers for a subset without clusters are unallocated", 10,
			[]allot.Subset{named("none", "60%"), named("west", "40%", on("west", 0))},
			"west=4", "6 of 10 replicas are unallocated: subset none has no cluster",
		}, {
			"contradictory numbers change nothing in any cluster", 4,
			[]allot.Subset{named("east", "3", on("east", 2), draining("north", 1)), named("west", "3", on("west", 3))},
			"east=2 east-north=1 west=3", "subsets ask for 6 replicas, more than the 4 there are",
		}, {
			"a group shares by weights", 6,
			[]allot.Subset{share("all", weighted(on("east", 0), 2), weighted(on("west", 0), 1))},
			"all-east=4 all-west=2", "",
		}, {
			"a cluster without a weight has weight 1", 6,
			[]allot.Subset{share("all", weighted(on("east", 0), 2), on("west", 0))},
			"all-east=4 all-west=2", "",
		}, {
			"a weight of 0 gets nothing", 6,
			[]allot.Subset{share("all", weighted(on("east", 3), 0), weighted(on("west", 3), 1))},
			"all-east=0 all-west=6", "",
		}, {
			"a frozen cluster keeps its replicas, whatever its weight", 12,
			[]allot.Subset{share("all", weighted(frozen("a", 1), 8), weighted(on("b", 0), 2), weighted(on("c", 0), 1))},
			"all-a=1 all-b=7 all-c=4", "",
		}, {
			"replicas that a limited cluster can't take go to the others by their weights", 10,
			[]allot.Subset{share("all", weighted(limited("a", 1), 8), weighted(on("b", 0), 2), weighted(on("c", 0), 1))},
			"all-a=1 all-b=6 all-c=3", "",
		}, {
			"no replicas and no subsets give no targets", 0, nil, "", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := allot.Allocate(c.total, c.subsets)
			require.Equal(t, c.want, summary(got.Targets))
			require.Equal(t, c.why, got.Why)
		})
	}
}

func TestOnlyMaximumsBar(t *testing.T) {
	t.Parallel()
	capped := func(m allot.Member, most int) allot.Member {
		m.Cap = &most
		return m
	}
	for _, c := range []struct {
		name                string
		total               int
		subsets             []allot.Subset
		unallocated, barred int
	}{
		{
			"replicas beyond the maximums of subsets", 9,
			[]allot.Subset{elastic("east", "1", "3", on("east", 3)), elastic("west", "", "4", on("west", 6))},
			2, 2,
		}, {
			"replicas beyond the limits of clusters", 10,
			[]allot.Subset{share("all", limited("a", 1), limited("b", 4))},
			5, 5,
		}, {
			"a maximum of 0", 6,
			[]allot.Subset{elastic("east", "", "0", on("east", 6))},
			6, 6,
		}, {
			"fixed replicas beyond the limit of their cluster", 10,
			[]allot.Subset{named("east", "6", limited("east", 4)), named("west", "4", on("west", 4))},
			2, 2,
		}, {
			"not the replicas that a frozen cluster would take", 20,
			[]allot.Subset{named("east", "60%", frozen("east", 6)), named("west", "40%", on("west", 4))},
			6, 0,
		}, {
			"not the replicas that a draining cluster would take", 10,
			[]allot.Subset{named("east", "6", draining("east", 6)), named("west", "4", on("west", 4))},
			6, 0,
		}, {
			"not the replicas that a subset without clusters would take", 10,
			[]allot.Subset{named("none", "60%"), named("west", "40%", on("west", 0))},
			6, 0,
		}, {
			"the replicas of a subset without clusters beyond its maximum", 9,
			[]allot.Subset{elastic("none", "", "3"), elastic("west", "", "4", on("west", 6))},
			5, 2,
		}, {
			"the replicas of a frozen cluster beyond its limit", 10,
			[]allot.Subset{share("all", capped(frozen("a", 1), 3), limited("b", 4))},
			5, 3,
		}, {
			"not the replicas that a frozen cluster already has beyond its limit", 12,
			[]allot.Subset{share("all", capped(frozen("a", 6), 4), limited("b", 4))},
			2, 2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := allot.Allocate(c.total, c.subsets)
			require.Equal(t, c.unallocated, got.Unallocated)
			require.Equal(t, c.barred, got.Barred)
		})
	}
}

func TestReasonsNameAtMostThreeClusters(t *testing.T) {
	t.Parallel()
	got := allot.Allocate(9, []allot.Subset{share("all", limited("a", 1), limited("b", 1), draining("c", 1), frozen("d", 1), limited("e", 1))})
	require.Equal(t, "5 of 9 replicas are unallocated: a is limited to 1, b is limited to 1, c is draining and 2 more", got.Why)
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		partitions map[string]int
		targets    []allot.Target
		want       []int
	}{
		{"a subset without a partition keeps none", nil, targets("all", 6, 3, 1), []int{0, 0, 0}},
		{"a group's partition follows the replicas", map[string]int{"all": 5}, targets("all", 6, 3, 1), []int{3, 2, 0}},
		{"a partition is limited to the replicas", map[string]int{"all": 50}, targets("all", 6, 3, 1), []int{6, 3, 1}},
		{"a negative partition counts as none", map[string]int{"all": -5}, targets("all", 6, 3, 1), []int{0, 0, 0}},
		{"a cluster without replicas keeps none", map[string]int{"all": 1}, targets("all", 0, 3, 0), []int{0, 1, 0}},
		{"an empty subset keeps none", map[string]int{"all": 1}, targets("all", 0, 0), []int{0, 0}},
		{
			"each subset has its own partition",
			map[string]int{"a": 1, "b": 4},
			append(targets("a", 2, 2), targets("b", 2, 2)...),
			[]int{1, 0, 2, 2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, allot.Partitions(c.partitions, c.targets))
		})
	}
}

func targets(subset string, replicas ...int) []allot.Target {
	var ts []allot.Target
	for i, n := range replicas {
		ts = append(ts, allot.Target{Key: allot.Key{Subset: subset, Cluster: string(rune('a' + i))}, Replicas: n})
	}
	return ts
}

// A partition is divided completely, is at most each target, and doesn't depend on the order of targets.
func TestPartitionsProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := targets("all", rapid.SliceOfN(rapid.IntRange(0, 1_000_000), 1, 20).Draw(t, "targets")...)
		asked := rapid.IntRange(0, 3_000_000).Draw(t, "partition")
		got := allot.Partitions(map[string]int{"all": asked}, ts)
		kept, replicas := 0, 0
		for i, n := range got {
			require.GreaterOrEqual(t, n, 0)
			require.LessOrEqual(t, n, ts[i].Replicas)
			kept, replicas = kept+n, replicas+ts[i].Replicas
		}
		require.Equal(t, min(asked, replicas), kept)

		slices.Reverse(ts)
		slices.Reverse(got)
		require.Equal(t, got, allot.Partitions(map[string]int{"all": asked}, ts))
	})
}

// problem is one random input of Allocate.
type problem struct {
	total   int
	subsets []allot.Subset
	// shared is true if some cluster is in several subsets.
	shared bool
	// integers is true if it contains no percentage.
	integers bool
}

func drawProblem(t *rapid.T) problem {
	p := problem{
		total:    rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 5000)).Draw(t, "total"),
		shared:   rapid.Bool().Draw(t, "shared"),
		integers: rapid.Bool().Draw(t, "integers"),
	}
	number := func(label string) *intstr.IntOrString {
		v := intstr.FromInt(rapid.IntRange(0, max(1, p.total/3)).Draw(t, label))
		if !p.integers && rapid.Bool().Draw(t, label+" is a percentage") {
			v = intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(0, 60).Draw(t, label+" percent")))
		}
		return rapid.SampledFrom([]*intstr.IntOrString{nil, &v}).Draw(t, label+" is set")
	}
	isElastic := rapid.Bool().Draw(t, "elastic")
	states := []allot.State{allot.Ready, allot.Ready, allot.Ready, allot.Frozen, allot.Draining, allot.Awaited, allot.Closed}
	clusterState := map[string]allot.State{}
	clusterCap := map[string]*int{}
	for i := range rapid.IntRange(1, 6).Draw(t, "subsets") {
		s := allot.Subset{Name: fmt.Sprintf("s%d", i)}
		if isElastic {
			s.Min, s.Max = number("min"), number("max")
		} else {
			s.Replicas = number("replicas")
		}
		for j := range rapid.IntRange(0, 6).Draw(t, "members") {
			name := fmt.Sprintf("c%d-%d", i, j)
			if p.shared {
				name = fmt.Sprintf("c%d", j)
			}
			weight := rapid.IntRange(1, 9).Draw(t, "weight")
			if _, known := clusterState[name]; !known {
				clusterState[name] = rapid.SampledFrom(states).Draw(t, "state")
				most := rapid.IntRange(0, max(1, p.total)).Draw(t, "cap")
				clusterCap[name] = rapid.SampledFrom([]*int{nil, nil, &most}).Draw(t, "capped")
			}
			s.Members = append(s.Members, allot.Member{
				Cluster: name, State: clusterState[name], Cap: clusterCap[name],
				Current: rapid.IntRange(0, max(1, p.total/4)).Draw(t, "current"),
				Weight:  rapid.SampledFrom([]*int{nil, nil, nil, nil, &weight}).Draw(t, "weighs"),
			})
			if m := &s.Members[j]; m.State == allot.Awaited {
				m.Current = 0
			}
		}
		p.subsets = append(p.subsets, s)
	}
	return p
}

// reached returns the subsets with the allocation as their current state.
func reached(subsets []allot.Subset, a allot.Allocation) []allot.Subset {
	now := map[allot.Key]int{}
	for _, t := range a.Targets {
		now[t.Key] = t.Replicas
	}
	adopted := slices.Clone(subsets)
	for i, s := range adopted {
		adopted[i].Members = slices.Clone(s.Members)
		for j, m := range s.Members {
			adopted[i].Members[j].Current = now[allot.Key{Subset: s.Name, Cluster: m.Cluster}]
		}
	}
	return adopted
}

// rounded returns the range of values that Replicas may resolve to. A percentage may be rounded up or down, since percentages are rounded
// together if they would not add up individually.
func rounded(v *intstr.IntOrString, total int) (fewest, greatest int) {
	switch {
	case v == nil:
		return 0, 1 << 40
	case v.Type == intstr.Int:
		return v.IntValue(), v.IntValue()
	}
	fewest, _ = intstr.GetScaledValueFromIntOrPercent(v, total, false)
	greatest, _ = intstr.GetScaledValueFromIntOrPercent(v, total, true)
	return fewest, greatest
}

func value(v *intstr.IntOrString, total, unset int) int {
	if v == nil {
		return unset
	}
	if v.Type == intstr.Int {
		return int(v.IntVal)
	}
	var percent int
	if _, err := fmt.Sscanf(v.StrVal, "%d%%", &percent); err != nil {
		return unset
	}
	return (percent*total + 50) / 100
}

func asNumber(n *int) *intstr.IntOrString {
	if n == nil {
		return nil
	}
	v := intstr.FromInt(*n)
	return &v
}

// checkTargets checks I1, I2 and I6 for one result, independently of Allocate's code.
func checkTargets(t *rapid.T, p problem, a allot.Allocation) {
	got := map[allot.Key]int{}
	sum := 0
	for _, target := range a.Targets {
		require.GreaterOrEqual(t, target.Replicas, 0, "I2: nothing is negative")
		got[target.Key] = target.Replicas
		sum += target.Replicas
	}
	require.Equal(t, a.Why != "", a.Ineffective || a.Unallocated > 0 || a.Excess > 0, "an allocation that does not add up has a reason")
	if a.Ineffective {
		require.Equal(t, a.Targets, allot.Allocate(p.total, reached(p.subsets, a)).Targets, "an ineffective allocation keeps the current replicas")
		return
	}
	require.Equal(t, p.total, sum+a.Unallocated-a.Excess, "I1: targets add up")
	require.False(t, a.Unallocated > 0 && a.Excess > 0, "I1: replicas are either missing or too many, not both")

	room, open, held, kept, inCluster := 0, 0, 0, 0, map[string]int{}
	for _, s := range p.subsets {
		fewest, greatest := rounded(s.Replicas, p.total)
		most := value(s.Max, p.total, greatest)
		here, frozen, ceiling, limit := 0, 0, 0, 0
		for _, m := range s.Members {
			n := got[allot.Key{Subset: s.Name, Cluster: m.Cluster}]
			here += n
			limit += value(asNumber(m.Cap), p.total, 1<<40)
			switch m.State {
			case allot.Frozen:
				require.Equal(t, m.Current, n, "I6: a frozen cluster keeps its replicas")
				frozen += n
				ceiling += n
			case allot.Draining, allot.Awaited:
				require.Zero(t, n, "I2: a cluster that is draining or awaited gets nothing")
			case allot.Closed:
				require.LessOrEqual(t, n, m.Current, "I2: a closed cluster gets nothing")
				inCluster[m.Cluster] += n
				most := m.Current
				if m.Cap != nil {
					require.LessOrEqual(t, inCluster[m.Cluster], *m.Cap, "I2: a cluster's limit applies to all subsets together")
					most = min(most, *m.Cap)
				}
				ceiling += most
			case allot.Ready:
				inCluster[m.Cluster] += n
				if m.Cap != nil {
					require.LessOrEqual(t, inCluster[m.Cluster], *m.Cap, "I2: a cluster's limit applies to all subsets together")
					ceiling += *m.Cap
				} else {
					ceiling = 1 << 40
				}
			}
		}
		require.LessOrEqual(t, here, max(most, frozen), "I2: a subset does not exceed its maximum, except for frozen replicas")
		if least := min(value(s.Min, p.total, fewest), most, ceiling); here < least {
			require.False(t, s.Replicas != nil && !p.shared, "I2: a subset gets its fixed replicas if its clusters can hold them")
			require.True(t, p.shared || a.Excess > 0 || atMost(p, got, s.Name), "I2: only earlier minimums have priority over a later one")
		}
		sure := most // what it takes, whichever way its percentage is rounded
		if s.Max == nil && s.Replicas != nil {
			sure = fewest
		}
		if s.Replicas != nil && !slices.ContainsFunc(s.Members, func(m allot.Member) bool { return m.State != allot.Awaited }) {
			kept += greatest
		}
		if len(s.Members) == 0 {
			limit = 1 << 40
		}
		room += max(min(sure, ceiling), frozen)
		open += min(sure, limit)
		held += frozen
	}
	if a.Unallocated > kept && !p.shared {
		require.Less(t, room, p.total, "I1: replicas are unallocated only when the maximums are used up")
	}
	barred := min(a.Unallocated, max(p.total-open, 0))
	require.True(t, p.shared && a.Barred <= a.Unallocated || a.Barred <= barred, "I5: only maximums make replicas impossible to place, not states")
	require.False(t, p.integers && !p.shared && a.Barred < barred, "I2: replicas beyond the maximums can't be placed")
	if a.Excess > 0 {
		require.Positive(t, held, "I1: only frozen clusters have more replicas than they should")
	}
}

// atMost reports whether no other subset has more than its own minimum or what is frozen in it. If so, replicas ran out while minimums were
// served.
func atMost(p problem, got map[allot.Key]int, name string) bool {
	for _, s := range p.subsets {
		here, frozen := 0, 0
		for _, m := range s.Members {
			n := got[allot.Key{Subset: s.Name, Cluster: m.Cluster}]
			here += n
			if m.State == allot.Frozen {
				frozen += n
			}
		}
		if s.Name != name && here > max(value(s.Min, p.total, 0), frozen) {
			return false
		}
	}
	return true
}

// restsAfter is how many more rounds an allocation may take to settle when subsets share a limited cluster: the odd replicas of the first
// round depend on what the limit then cuts.
const restsAfter = 2

// requireSame compares before it describes, because describing an empty difference takes longer than all the rest of a check.
func requireSame(t *rapid.T, a, b allot.Allocation, why string) {
	if !reflect.DeepEqual(a, b) {
		require.Empty(t, gocmp.Diff(a, b), why)
	}
}

func checkAllocate(t *rapid.T) {
	p := drawProblem(t)
	first := allot.Allocate(p.total, p.subsets)
	checkTargets(t, p, first)
	requireSame(t, first, allot.Allocate(p.total, p.subsets), "I2: the same input has the same result")

	turned := slices.Clone(p.subsets)
	for i := range turned {
		turned[i].Members = slices.Clone(turned[i].Members)
		slices.Reverse(turned[i].Members)
	}
	requireSame(t, first, allot.Allocate(p.total, turned), "I2: the order of clusters does not matter")

	now := reached(p.subsets, first)
	settled := allot.Allocate(p.total, now)
	for k := 0; p.shared && k < restsAfter; k++ {
		first, now = settled, reached(now, settled)
		settled = allot.Allocate(p.total, now)
	}
	requireSame(t, first, settled, "I8: an allocation that is reached is final")

	if p.integers && !p.shared && !first.Ineffective {
		by := rapid.IntRange(-20, 20).Draw(t, "scaled by")
		next := allot.Allocate(max(p.total+by, 0), now)
		if next.Ineffective {
			return
		}
		in, out := moved(first, next)
		require.LessOrEqual(t, in+out, max(by, -by), "I7: scaling moves no replica unnecessarily")
		checkOneNumber(t, p, now, first)
	}
}

// checkOneNumber changes one number of one subset by n. At most n replicas may move.
func checkOneNumber(t *rapid.T, p problem, now []allot.Subset, first allot.Allocation) {
	i := rapid.IntRange(0, len(now)-1).Draw(t, "changed subset")
	for _, field := range []**intstr.IntOrString{&now[i].Replicas, &now[i].Min, &now[i].Max} {
		if *field == nil {
			continue
		}
		old := *field
		v := intstr.FromInt32(max(old.IntVal+rapid.Int32Range(-10, 10).Draw(t, "changed by"), 0))
		*field = &v
		next := allot.Allocate(p.total, now)
		*field = old
		if next.Ineffective {
			continue
		}
		in, out := moved(first, next)
		require.LessOrEqual(t, max(in, out), int(max(v.IntVal-old.IntVal, old.IntVal-v.IntVal)), "I7: a number changed by n moves at most n")
	}
}

// moved returns how many replicas clusters gained and lost from a to b.
func moved(a, b allot.Allocation) (in, out int) {
	for i := range a.Targets {
		in += max(b.Targets[i].Replicas-a.Targets[i].Replicas, 0)
		out += max(a.Targets[i].Replicas-b.Targets[i].Replicas, 0)
	}
	return in, out
}

func TestAllocateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, checkAllocate)
}

// Targets add up to the desired total, or nothing has room for what is unallocated. make test-all checks a million inputs. A shard that fails
// prints its smallest input, and the flag that draws it again.
func TestI01TargetsAddUp(t *testing.T) {
	t.Parallel()
	for i := range shards(t) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p := drawProblem(t)
				checkTargets(t, p, allot.Allocate(p.total, p.subsets))
			})
		})
	}
}

func FuzzAllocate(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(checkAllocate))
}

func BenchmarkAllocate(b *testing.B) {
	b.Run("clusters=1000/subsets=10", func(b *testing.B) {
		subsets := manySubsets(1000, 10)
		b.ReportAllocs()
		for b.Loop() {
			if a := allot.Allocate(30_000, subsets); a.Unallocated > 0 {
				b.Fatal(a.Why)
			}
		}
	})
}

// manySubsets returns an object whose subsets each select every cluster. One cluster in fifty is frozen, and one in ten is limited.
func manySubsets(clusters, subsets int) []allot.Subset {
	most := 40
	var list []allot.Subset
	for i := range subsets {
		s := allot.Subset{Name: fmt.Sprintf("s%d", i), Members: make([]allot.Member, clusters)}
		for j := range s.Members {
			s.Members[j] = allot.Member{Cluster: fmt.Sprintf("cluster-%04d", (j*7919)%clusters), Current: (i + j) % 5}
			switch {
			case j%50 == 0:
				s.Members[j].State = allot.Frozen
			case j%10 == 0:
				s.Members[j].Cap = &most
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b allot.Subset) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
