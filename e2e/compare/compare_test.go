package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const output = `goos: linux
goarch: amd64
pkg: github.com/flotilla-io/flotilla/pkg/plan/rollout
cpu: any
BenchmarkNext/pods=100/update 	      20	     12345 ns/op	    1000 B/op	     100 allocs/op
BenchmarkNext/pods=100/update 	      20	     12345 ns/op	    1001 B/op	     100 allocs/op
BenchmarkWrites/create        	      20	   2345678 ns/op	         2.000 writes/pod	  500000 B/op	    5000 allocs/op
PASS
ok  	github.com/flotilla-io/flotilla/pkg/plan/rollout	0.2s
`

// recordedIn returns the file with the output's figures.
func recordedIn(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "recorded.json")
	require.NoError(t, run(file, true, strings.NewReader(output), nil))
	return file
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// edit holds pairs of old and new text in the output.
		edit []string
		// want is what the error says. Empty means no error.
		want []string
	}{
		"the same figures pass": {},
		"times are ignored":     {edit: []string{"12345 ns/op", "99999999 ns/op"}},
		"a tenth more passes":   {edit: []string{"1000 B/op", "1100 B/op", "1001 B/op", "1100 B/op"}},
		"better figures pass":   {edit: []string{"1000 B/op", "10 B/op", "2.000 writes", "1.000 writes"}},
		"allocations of a benchmark with its own figures are ignored": {edit: []string{"5000 allocs/op", "50000 allocs/op"}},
		"more than a tenth fails, with benchmark, figure, before and now": {
			edit: []string{"100 allocs/op", "111 allocs/op"},
			want: []string{"pkg/plan/rollout.Next/pods=100/update: allocs/op was 100 and is 111, +11 %", "make bench-record"},
		},
		"so does a benchmark's own figure": {
			edit: []string{"2.000 writes/pod", "2.300 writes/pod"},
			want: []string{"pkg/plan/rollout.Writes/create: writes/pod was 2 and is 2.3, +15 %"},
		},
		"of several results the lowest counts": {edit: []string{"1001 B/op", "2000 B/op"}},
		"a new benchmark must be recorded": {
			edit: []string{"PASS", "BenchmarkMore \t 20 \t 1 ns/op \t 3 allocs/op\nPASS"},
			want: []string{"pkg/plan/rollout.More: allocs/op is not recorded; now it is 3", "make bench-record"},
		},
		"a benchmark of another package is another one": {
			edit: []string{"flotilla/pkg/plan/rollout", "flotilla/hub/allot"},
			want: []string{"hub/allot.Writes/create: writes/pod is not recorded", "pkg/plan/rollout.Writes/create: writes/pod is recorded with 2"},
		},
		"a removed benchmark must be recorded": {
			edit: []string{"BenchmarkWrites/create", "Writes/create"},
			want: []string{"pkg/plan/rollout.Writes/create: writes/pod is recorded with 2, but the benchmark no longer reports it"},
		},
		"an input without benchmarks fails": {edit: []string{"Benchmark", "No"}, want: []string{"no result of a benchmark"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(recordedIn(t), false, strings.NewReader(strings.NewReplacer(c.edit...).Replace(output)), &out)
			if len(c.want) == 0 {
				require.NoError(t, err)
				return
			}
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestRecordChangesWhatHasChanged(t *testing.T) {
	t.Parallel()
	file := recordedIn(t)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	noisy := strings.NewReplacer("1000 B/op", "1010 B/op", "1001 B/op", "1011 B/op").Replace(output)
	require.NoError(t, run(file, true, strings.NewReader(noisy), nil))
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "a difference of 1 percent is noise")

	fewer := strings.NewReplacer("2.000 writes/pod", "1.000 writes/pod").Replace(output)
	require.NoError(t, run(file, true, strings.NewReader(fewer), nil))
	require.ErrorContains(t, run(file, false, strings.NewReader(output), &strings.Builder{}), "writes/pod was 1 and is 2")
}
