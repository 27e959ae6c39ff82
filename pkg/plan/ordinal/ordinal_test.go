package ordinal

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	"github.com/flotilla-io/flotilla/testkit"
)

func TestOrdinals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		start   int64
		n       int32
		reserve []intstr.IntOrString
		want    []int64
	}{
		{"without reserved ordinals they count up from 0", 0, 3, nil, []int64{0, 1, 2}},
		{"they begin at start and skip reserved ones", 2, 4, testkit.Entries(1, 3), []int64{2, 4, 5, 6}},
		{"a range includes both ends", 0, 3, testkit.Entries("1-3"), []int64{0, 4, 5}},
		{"#746: a reserved ordinal beyond the last pod changes nothing", 0, 3, testkit.Entries(3, "7-9"), []int64{0, 1, 2}},
		{"the first ordinals can be reserved", 0, 2, testkit.Entries("0-4"), []int64{5, 6}},
		{"start can lie in a range", 3, 2, testkit.Entries("2-5"), []int64{6, 7}},
		{"ranges that touch are one", 0, 2, testkit.Entries("0-1", "2-3"), []int64{4, 5}},
		{"ranges in any order that overlap are one", 0, 3, testkit.Entries("4-6", 2, "1-4", 2), []int64{0, 7, 8}},
		{"a range within another one adds nothing", 0, 2, testkit.Entries("0-9", "2-3"), []int64{10, 11}},
		{"no replicas have no ordinals", 4, 0, testkit.Entries(1), nil},
		{"negative replicas have no ordinals", 0, -1, nil, nil},
		{"a number is a range of one", 0, 2, testkit.Entries("1-1"), []int64{0, 2}},
		{"leading zeros are ignored", 0, 2, testkit.Entries("000-001"), []int64{2, 3}},
		{"there is no ordinal beyond the largest number", math.MaxInt32 - 1, 5, testkit.Entries(math.MaxInt32), []int64{math.MaxInt32 - 1}},
		{"a large range costs nothing", 0, 1, testkit.Entries("0-2147483646"), []int64{math.MaxInt32}},
		{"B 6: an invalid entry does not affect others", 0, 2, testkit.Entries("7-3", 0), []int64{1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _, _ := Reserve(tt.reserve, field.NewPath("r"))
			got := r.First(tt.start, tt.n, nil, math.MaxInt)
			require.Equal(t, tt.want, got)
			for _, o := range got {
				require.False(t, r.Has(o))
			}
			if len(got) == int(tt.n) && len(got) > 0 {
				require.Equal(t, got[len(got)-1], r.Last(tt.start, tt.n))
			}
		})
	}
}

func TestReserveReportsInvalidEntries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		entry any
		want  string
	}{
		{"a negative number", -1, `r[1]: Invalid value: "-1": an ordinal must be 0 or more`},
		{"a number in quotes", "3", `r[1]: Invalid value: "3": must be a number such as 3, without quotes, or a range such as "3-7"`},
		{"an empty string", "", `r[1]: Invalid value: "": must be a number`},
		{"a range without an end", "3-", `r[1]: Invalid value: "3-": must be a number`},
		{"a range of three", "1-2-3", `r[1]: Invalid value: "1-2-3": must be a number`},
		{"a range with a sign", "+1-3", `r[1]: Invalid value: "+1-3": must be a number`},
		{"a range with blanks", "1 - 3", `r[1]: Invalid value: "1 - 3": must be a number`},
		{"a range that runs backwards", "7-3", `r[1]: Invalid value: "7-3": the range runs backwards: write "3-7"`},
		{"a range that ends beyond the largest number", "0-2147483648", `r[1]: Invalid value: "0-2147483648": ordinals end at 2147483647: use smaller ones`},
		{"a range of numbers beyond 64 bits", "1-99999999999999999999", "ordinals end at 2147483647"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, duplicate, faults := Reserve(testkit.Entries(5, tt.entry), field.NewPath("r"))
			require.Len(t, faults, 1)
			require.ErrorContains(t, faults[0], tt.want)
			require.Empty(t, duplicate)
			require.True(t, r.Has(5), "valid entries apply")
		})
	}
}

func TestReserveReportsDuplicates(t *testing.T) {
	t.Parallel()
	_, duplicate, faults := Reserve(testkit.Entries(9, "2-4", 4), field.NewPath("r"))
	require.Empty(t, faults)
	require.Equal(t, "r[1] (2-4) and r[2] (4) reserve the same ordinals: list them once", duplicate)
	_, duplicate, _ = Reserve(testkit.Entries(1, "2-4", 5), field.NewPath("r"))
	require.Empty(t, duplicate, "adjacent ranges are no duplicates")
}

// TestOrdinalsMatchCountingOneByOne: the result must be the same as without intervals.
func TestOrdinalsMatchCountingOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var list []intstr.IntOrString
		out := map[int64]bool{}
		for range rapid.IntRange(0, 6).Draw(t, "entries") {
			a := rapid.IntRange(0, 30).Draw(t, "first")
			b := a + rapid.IntRange(0, 8).Draw(t, "more")
			list = append(list, intstr.FromString(strconv.Itoa(a)+"-"+strconv.Itoa(b)))
			for o := a; o <= b; o++ {
				out[int64(o)] = true
			}
		}
		start, n := rapid.Int64Range(0, 20).Draw(t, "start"), rapid.Int32Range(0, 20).Draw(t, "n")
		want := []int64{}
		for o := start; len(want) < int(n); o++ {
			if !out[o] {
				want = append(want, o)
			}
		}
		r, _, faults := Reserve(list, field.NewPath("r"))
		require.Empty(t, faults)
		require.ElementsMatch(t, want, r.First(start, n, nil, math.MaxInt))
		used := map[int64]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "used") {
			used[rapid.Int64Range(0, 60).Draw(t, "ordinal")] = true
		}
		free := rapid.IntRange(0, 10).Draw(t, "free")
		got, left := r.First(start, n, used, free), free
		few := slices.DeleteFunc(slices.Clone(want), func(o int64) bool {
			if used[o] {
				return false
			}
			left--
			return left < 0
		})
		require.ElementsMatch(t, few, got)
		require.True(t, slices.IsSorted(got))
		var unreserved int64
		for o := range int64(60) {
			if o >= start && !out[o] {
				unreserved++
			}
			require.Equal(t, out[o], r.Has(o))
			require.Equal(t, slices.Contains(want, o), r.Wants(o, start, n))
			require.Equal(t, unreserved, Count(list, start, max(o, start-1)))
		}
	})
}

func TestTheOrdinalIsInThePodsName(t *testing.T) {
	t.Parallel()
	for pod, want := range map[string]string{
		"web-0": "0", "web-12": "12", "web-2147483647": "2147483647",
		"web-2147483648": "", "web-01": "", "web--1": "", "web-+1": "", "web-": "", "web-a": "", "webb-1": "", "web": "", "web-1-1": "",
	} {
		require.Equal(t, want, In("web", pod), pod)
	}
}
