//go:build integration

package lab

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// version2 returns where the machine has cgroup v2, with a controller that a group with processes can't delegate (unlike controllers that
// count threads) and that v1 doesn't hold, as v1 does with most controllers on a machine with both.
func version2(t *testing.T) (dir, controller string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("control groups are root's")
	}
	all, err := hierarchies()
	require.NoError(t, err)
	for _, h := range all {
		if !h.v2 {
			continue
		}
		have := strings.Fields(read(t, h.dir, controllersFile))
		for _, c := range []string{"memory", "io", "hugetlb"} {
			if slices.Contains(have, c) {
				return h.dir, c
			}
		}
	}
	t.Skip("version 2 of control groups has no controllers on this machine")
	return "", ""
}

// A group that isn't the machine's root stands for a container's root.
func TestTheKernelHandsControllersOnBelowAGroupWithProcesses(t *testing.T) {
	root, controller := version2(t)
	if !slices.Contains(strings.Fields(read(t, root, subtreeFile)), controller) {
		require.NoError(t, os.WriteFile(filepath.Join(root, subtreeFile), []byte("+"+controller), 0))
		t.Cleanup(func() { _ = os.WriteFile(filepath.Join(root, subtreeFile), []byte("-"+controller), 0) })
	}
	name := "test-" + strings.ToLower(rand.Text()[:8])
	inside := hierarchy{dir: filepath.Join(root, groupFolder+"-"+name), v2: true}
	require.NoError(t, os.Mkdir(inside.dir, 0o755))
	t.Cleanup(func() { require.NoError(t, removeGroup(inside.dir)) })
	p := start(t, Command{Dir: t.TempDir(), Name: "sleep", Args: []string{"sleep", "300"}})
	pid := strconv.Itoa(p.PID)
	require.NoError(t, os.WriteFile(filepath.Join(inside.dir, procsFile), []byte(pid), 0))
	require.ErrorIs(t, delegateDown(inside.dir), unix.EBUSY, "otherwise there is nothing to repair")

	groups, err := makeGroups([]hierarchy{inside}, name)
	require.NoError(t, err)
	require.Equal(t, pid+"\n", read(t, inside.dir, initGroup, procsFile))
	require.Contains(t, read(t, groups[0], controllersFile), controller)

	// The node's own steps, on the way to a group for its pods.
	require.NoError(t, os.WriteFile(filepath.Join(groups[0], procsFile), []byte(pid), 0))
	steps := delegate(read(t, inside.dir, groupFolder, subtreeFile))
	require.ErrorIs(t, os.WriteFile(filepath.Join(groups[0], subtreeFile), []byte(steps[2][2]), 0), unix.EBUSY)
	require.NoError(t, os.Mkdir(filepath.Join(groups[0], initGroup), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(groups[0], initGroup, procsFile), []byte(pid), 0))
	require.NoError(t, os.WriteFile(filepath.Join(groups[0], subtreeFile), []byte(steps[2][2]), 0))
	pods := filepath.Join(groups[0], "kubepods")
	require.NoError(t, os.Mkdir(pods, 0o755))
	require.Contains(t, read(t, pods, controllersFile), controller)

	// A node whose record is lost is found through its group.
	require.True(t, p.Alive())
	require.NoError(t, removeGroups(t.Context(), []hierarchy{inside}, name))
	require.False(t, p.Alive())
	require.NoDirExists(t, groups[0])
	require.NoError(t, unix.Rmdir(inside.group("")))
	require.NoError(t, unix.Rmdir(filepath.Join(inside.dir, initGroup)))
}
