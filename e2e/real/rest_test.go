//go:build e2e

package real

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restWindow is how long the fleet is measured.
const restWindow = time.Minute

// usage is what the processes of one program use.
type usage struct {
	processes int
	// memory is in KiB, with shared pages counted once. ticks are hundredths of a second of CPU time.
	memory, ticks int
}

// BenchmarkRest measures what a process of each program uses in a fleet at rest.
func BenchmarkRest(b *testing.B) {
	for b.Loop() {
		newScene(b).restore()
		require.True(b, pause(b.Context(), restWindow)) // Wait for what happens after a start.
		before := programs(b)
		require.True(b, pause(b.Context(), restWindow))
		after := programs(b)
		require.Contains(b, after, "flotilla-member")
		for name, current := range after {
			old := before[name]
			if old.processes != current.processes {
				b.Logf("%s: %d processes, then %d", name, old.processes, current.processes)
				continue
			}
			n := float64(current.processes)
			b.ReportMetric(float64(current.memory)/1024/n, name+"-MiB")
			b.ReportMetric(float64(current.ticks-old.ticks)/restWindow.Seconds()/n, name+"-%core")
		}
		b.ReportMetric(0, "ns/op")
	}
}

// programs returns the processes of the fleet's clusters, by name. Those of control planes have the cluster's folder in their arguments, and
// those of nodes are in the nodes' control groups.
func programs(tb testing.TB) map[string]usage {
	tb.Helper()
	out := map[string]usage{}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(tb, err)
	for _, dir := range dirs {
		read := func(name string) string {
			data, _ := os.ReadFile(filepath.Join(dir, name)) // It may have exited.
			return string(data)
		}
		command, ours := read("cmdline"), strings.Contains(read("cgroup"), "flotilla-lab/")
		for _, c := range env.Clusters() {
			ours = ours || strings.Contains(command, c.Lab.Dir+"/")
		}
		_, stat, found := strings.Cut(read("stat"), ") ")
		if !ours || !found {
			continue
		}
		program, _, _ := strings.Cut(command, "\x00")
		fields, name := strings.Fields(stat), filepath.Base(program)
		u := out[name]
		u.processes++
		for _, i := range []int{11, 12} { // In user mode and in the kernel, as in proc_pid_stat(5).
			n, err := strconv.Atoi(fields[i])
			require.NoError(tb, err)
			u.ticks += n
		}
		for line := range strings.Lines(read("smaps_rollup")) {
			if kib, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, err := strconv.Atoi(strings.Fields(kib)[0])
				require.NoError(tb, err)
				u.memory += n
			}
		}
		out[name] = u
	}
	return out
}
