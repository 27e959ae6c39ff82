//go:build e2e

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restWindow is how long the fleet is looked at.
const restWindow = time.Minute

// usage is what processes of one program have used.
type usage struct {
	processes int
	// memory is in KiB, with pages that are shared counted once; ticks are hundredths of a second of CPU.
	memory, ticks int
}

// TestFiguresAtRest prints what each program of a fleet takes that has nothing to do.
func TestFiguresAtRest(t *testing.T) {
	figures(t)
	s := newScene(t)
	s.whole()
	require.True(t, pause(t.Context(), restWindow)) // For what follows a start.
	before := programs(t)
	require.True(t, pause(t.Context(), restWindow))
	after := programs(t)
	var lines []string
	for name, is := range after {
		was := before[name]
		if was.processes != is.processes {
			t.Logf("%s: %d processes, then %d", name, was.processes, is.processes)
			continue
		}
		lines = append(lines, fmt.Sprintf("| %s | %d | %.0f MiB | %.1f %% |", name, is.processes,
			float64(is.memory)/1024/float64(is.processes), float64(is.ticks-was.ticks)/restWindow.Seconds()/float64(is.processes)))
	}
	slices.Sort(lines)
	t.Logf("a process at rest:\n| program | processes | memory | of a core |\n|---|---:|---:|---:|\n%s", strings.Join(lines, "\n"))
	require.Contains(t, after, "flotilla-member")
}

// programs are the processes of the fleet's clusters, by name: those of control planes name the cluster's folder, and those of
// nodes are in the nodes' control groups.
func programs(t *testing.T) map[string]usage {
	t.Helper()
	out := map[string]usage{}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, dir := range dirs {
		read := func(name string) string {
			data, _ := os.ReadFile(filepath.Join(dir, name)) // It may have ended.
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
			require.NoError(t, err)
			u.ticks += n
		}
		for line := range strings.Lines(read("smaps_rollup")) {
			if kib, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, err := strconv.Atoi(strings.Fields(kib)[0])
				require.NoError(t, err)
				u.memory += n
			}
		}
		out[name] = u
	}
	return out
}
