package workloadspread

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func TestTake(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		ws      *appsv1beta1.WorkloadSpread
		version string
		total   int32
		want    []string
	}{
		{name: "numbers, then no limit", ws: spreading(ours, "CloneSet", subset("a", 2), subset("b", unlimited)), want: []string{"a", "a", "b", "b"}},
		{name: "percentages are rounded up", ws: spreading(ours, "CloneSet", subset("a", "30%"), subset("b", "70%")), total: 5, want: []string{"a", "a", "b", "b", "b", "b", ""}},
		{name: "all subsets are full", ws: spreading(ours, "CloneSet", subset("a", 1), subset("b", 1)), want: []string{"a", "b", "", ""}},
		{name: "a subset without pods", ws: spreading(ours, "CloneSet", subset("a", 0), subset("b", unlimited)), want: []string{"b"}},
		{
			name: "the status of the version counts", ws: ledger(ledger(spreading(ours, "CloneSet", subset("a", 3), subset("b", unlimited)), "v1", line("a", 0, 3)), "v2", line("a", 1, 1, "x")),
			version: "v2", want: []string{"a", "b"},
		},
		{name: "a lower limit counts at once", ws: ledger(spreading(ours, "CloneSet", subset("a", 2), subset("b", unlimited)), "", line("a", 2, 3)), want: []string{"b"}},
		{name: "a higher limit counts once the controller has counted", ws: ledger(spreading(ours, "CloneSet", subset("a", 9), subset("b", unlimited)), "", line("a", 2, 0)), want: []string{"b"}},
		{name: "a new limit counts once the controller has counted", ws: ledger(spreading(ours, "CloneSet", subset("a", 9), subset("b", unlimited)), "", line("a", 2, unlimited)), want: []string{"b"}},
		{name: "a removed limit", ws: ledger(spreading(ours, "CloneSet", subset("a", unlimited)), "", line("a", 2, 0)), want: []string{"a"}},
		{name: "a new subset gets pods once the controller has counted: it may have existed before", ws: ledger(spreading(ours, "CloneSet", subset("new", 1), subset("a", 3)), "", line("a", 2, 1)), want: []string{"a", ""}},
		{name: "a closed subset", ws: closed(spreading(ours, "CloneSet", subset("a", 3), subset("b", unlimited)), noon), want: []string{"b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for i := range tc.want {
				n, changed := takePlace(tc.ws, tc.version, fmt.Sprint("pod-", i), tc.total, noon)
				name := ""
				if n >= 0 {
					name = tc.ws.Spec.Subsets[n].Name
					require.Equal(t, tc.ws.Spec.Subsets[n].MaxReplicas != nil, changed, "only places in limited subsets are written")
				} else {
					require.False(t, changed)
				}
				got = append(got, name)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// TestTakeNeverExceeds takes places with random statuses and specs.
func TestTakeNeverExceeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "subsets")
		ws := spreading(ours, "CloneSet")
		var st []appsv1beta1.WorkloadSpreadSubsetStatus
		for i := range n {
			s := appsv1beta1.WorkloadSpreadSubset{Name: strconv.Itoa(i)}
			if rapid.Bool().Draw(t, "limited") {
				s.MaxReplicas = new(intstr.FromInt(rapid.IntRange(0, 5).Draw(t, "max")))
			}
			ws.Spec.Subsets = append(ws.Spec.Subsets, s)
			if rapid.Bool().Draw(t, "counted") {
				replicas := rapid.Int32Range(0, 5).Draw(t, "replicas")
				missing := rapid.Int32Range(-1, 5).Draw(t, "missing")
				st = append(st, line(s.Name, replicas, missing))
			}
		}
		ledger(ws, "v", st...)
		before := map[string]int32{}
		for _, l := range st {
			before[l.Name] = l.Replicas
		}
		for i := range 20 {
			subset, _ := takePlace(ws, "v", fmt.Sprint("pod-", i), 0, noon)
			if subset < 0 {
				break
			}
			s := &ws.Spec.Subsets[subset]
			if s.MaxReplicas == nil {
				continue
			}
			status := statusOf(ws.Status.VersionedSubsetStatuses["v"], s.Name)
			require.LessOrEqual(t, int(status.Replicas)+len(status.CreatingPods), s.MaxReplicas.IntValue())
			require.GreaterOrEqual(t, status.MissingReplicas, int32(0))
		}
	})
}

func TestByRank(t *testing.T) {
	t.Parallel()
	ws := spreading(ours, "StatefulSet", subset("a", 2), subset("b", 3), subset("c", unlimited))
	for rank, want := range []int{0, 0, 1, 1, 1, 2, 2} {
		require.Equal(t, want, subsetByRank(ws, int64(rank)), "rank %d", rank)
	}
	closed(ws, noon)
	for rank, want := range []int{1, 1, 1, 2} {
		require.Equal(t, want, subsetByRank(ws, int64(rank)), "rank %d without a", rank)
	}
	require.Equal(t, -1, subsetByRank(spreading(ours, "StatefulSet", subset("a", 1)), 1))
}
