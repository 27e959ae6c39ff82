package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		v     *intstr.IntOrString
		of    int
		round Rounding
		want  int
		err   string
	}{
		{name: "nil is none", of: 10},
		{name: "a number stands as it is, also above all", v: new(intstr.FromInt32(12)), of: 10, want: 12},
		{name: "a percentage rounds up", v: new(intstr.FromString("25%")), of: 10, round: Up, want: 3},
		{name: "a percentage rounds down", v: new(intstr.FromString("25%")), of: 10, want: 2},
		{name: "any percentage of none is none", v: new(intstr.FromString("25%")), round: Up},
		{name: "a string without percent sign fails", v: new(intstr.FromString("5")), of: 10, err: `resolve "5" of 10 pods`},
		{name: "a word fails", v: new(intstr.FromString("ten%")), of: 10, err: `resolve "ten%" of 10 pods`},
		{name: "a negative number fails", v: new(intstr.FromInt32(-1)), of: 10, err: "below 0"},
		{name: "a negative percentage fails", v: new(intstr.FromString("-10%")), of: 10, err: "below 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Resolve(tc.v, tc.of, tc.round)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestResolvePartition(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		v    *intstr.IntOrString
		of   int
		want int
		err  string
	}{
		{name: "nil keeps none", of: 10},
		{name: "a number above all keeps all", v: new(intstr.FromInt32(12)), of: 10, want: 10},
		{name: "a number may keep all", v: new(intstr.FromInt32(10)), of: 10, want: 10},
		{name: "a percentage rounds up", v: new(intstr.FromString("25%")), of: 10, want: 3},
		{name: "more than 0% keeps at least one", v: new(intstr.FromString("1%")), of: 10, want: 1},
		{name: "less than 100% leaves at least one to update", v: new(intstr.FromString("95%")), of: 10, want: 9},
		{name: "less than 100% of one pod keeps it", v: new(intstr.FromString("50%")), of: 1, want: 1},
		{name: "100% keeps all", v: new(intstr.FromString("100%")), of: 10, want: 10},
		{name: "0% keeps none", v: new(intstr.FromString("0%")), of: 10},
		{name: "a string without percent sign fails", v: new(intstr.FromString("5")), of: 10, err: `resolve "5"`},
		{name: "a negative number fails", v: new(intstr.FromInt32(-2)), of: 10, err: "below 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := ResolvePartition(tc.v, tc.of)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
