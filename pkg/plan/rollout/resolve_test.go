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
		total int
		round Rounding
		want  int
		err   string
	}{
		{name: "nil resolves to 0", total: 10},
		{name: "a number is not limited by the total", v: new(intstr.FromInt32(12)), total: 10, want: 12},
		{name: "a percentage rounds up", v: new(intstr.FromString("25%")), total: 10, round: Up, want: 3},
		{name: "a percentage rounds down", v: new(intstr.FromString("25%")), total: 10, want: 2},
		{name: "any percentage of 0 is 0", v: new(intstr.FromString("25%")), round: Up},
		{name: "a string without percent sign fails", v: new(intstr.FromString("5")), total: 10, err: `resolve "5" of 10 pod(s)`},
		{name: "a word fails", v: new(intstr.FromString("ten%")), total: 10, err: `resolve "ten%" of 10 pod(s)`},
		{name: "a negative number fails", v: new(intstr.FromInt32(-1)), total: 10, err: "must not be negative"},
		{name: "a negative percentage fails", v: new(intstr.FromString("-10%")), total: 10, err: "must not be negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Resolve(tc.v, tc.total, tc.round)
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
		name  string
		v     *intstr.IntOrString
		total int
		want  int
		err   string
	}{
		{name: "nil keeps none", total: 10},
		{name: "a number above all keeps all", v: new(intstr.FromInt32(12)), total: 10, want: 10},
		{name: "a number may keep all", v: new(intstr.FromInt32(10)), total: 10, want: 10},
		{name: "a percentage rounds up", v: new(intstr.FromString("25%")), total: 10, want: 3},
		{name: "more than 0% keeps at least one", v: new(intstr.FromString("1%")), total: 10, want: 1},
		{name: "less than 100% leaves at least one to update", v: new(intstr.FromString("95%")), total: 10, want: 9},
		{name: "less than 100% of one pod keeps it", v: new(intstr.FromString("50%")), total: 1, want: 1},
		{name: "100% keeps all", v: new(intstr.FromString("100%")), total: 10, want: 10},
		{name: "0% keeps none", v: new(intstr.FromString("0%")), total: 10},
		{name: "a string without percent sign fails", v: new(intstr.FromString("5")), total: 10, err: `resolve "5"`},
		{name: "a negative number fails", v: new(intstr.FromInt32(-2)), total: 10, err: "must not be negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := ResolvePartition(tc.v, tc.total)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
