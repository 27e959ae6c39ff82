package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHierarchiesAreReadFromTheMounts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, mountinfo string
		want            []hierarchy
		unified         bool
	}{
		{
			name: "version 2 alone",
			mountinfo: `24 1 0:22 / /sys rw,nosuid - sysfs none rw
30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 none rw,nsdelegate,memory_recursiveprot
`,
			want: []hierarchy{{dir: "/sys/fs/cgroup", v2: true}}, unified: true,
		},
		{
			name: "version 2 at the root, and a mount of a VPN below it",
			mountinfo: `30 24 0:26 / /sys/fs/cgroup rw - cgroup2 none rw
31 30 0:27 / /sys/fs/cgroup/net_cls rw - cgroup none rw,net_cls
`,
			want: []hierarchy{{dir: "/sys/fs/cgroup", v2: true}}, unified: true,
		},
		{
			name: "version 1, a folder for each controller, with version 2 beside it",
			mountinfo: `30 24 0:26 / /sys/fs/cgroup rw - tmpfs none rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup none rw,cpu
32 30 0:28 / /sys/fs/cgroup/systemd rw,relatime - cgroup none rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 none rw
`,
			want: []hierarchy{
				{dir: "/sys/fs/cgroup/cpu", name: "cpu", options: "cpu"},
				{dir: "/sys/fs/cgroup/systemd", name: "systemd", options: "none,name=systemd"},
				{dir: "/sys/fs/cgroup/unified", name: "unified", v2: true},
			},
		},
		{
			name: "version 1 as systemd mounts it, with two controllers in one",
			mountinfo: `31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 master:2 - cgroup none rw,cpu,cpuacct,release_agent=/x
31 30 0:28 / /sys/fs/cgroup/cpuset rw,relatime - cgroup none rw,cpuset,clone_children
`,
			want: []hierarchy{
				{dir: "/sys/fs/cgroup/cpu,cpuacct", name: "cpu,cpuacct", options: "cpu,cpuacct"},
				{dir: "/sys/fs/cgroup/cpuset", name: "cpuset", options: "cpuset"},
			},
		},
		{
			name: "options that aren't controllers: SELinux labels, a kernel setting",
			mountinfo: `31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup none rw,seclabel,cpu,favordynmods
`,
			want: []hierarchy{{dir: "/sys/fs/cgroup/cpu", name: "cpu", options: "cpu"}},
		},
		{
			name: "version 2 that version 1 hides",
			mountinfo: `30 24 0:26 / /sys/fs/cgroup rw - cgroup2 none rw
40 30 0:30 / /sys/fs/cgroup rw - tmpfs none rw,mode=755
41 40 0:31 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu
`,
			want: []hierarchy{{dir: "/sys/fs/cgroup/cpu", name: "cpu", options: "cpu"}},
		},
		{
			name: "a mount over another one counts once",
			mountinfo: `30 24 0:26 / /sys/fs/cgroup rw - cgroup2 none rw
40 30 0:26 / /sys/fs/cgroup rw - cgroup2 none rw
`,
			want: []hierarchy{{dir: "/sys/fs/cgroup", v2: true}}, unified: true,
		},
		{name: "mounts elsewhere, and truncated lines", mountinfo: "30 24 0:26 / /mnt/cgroup rw - cgroup2 none rw\n30 24\n30 24 0:26 / /sys/fs/cgroup rw - cgroup2\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := parseHierarchies(tc.mountinfo)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.unified, unified(got))
		})
	}
}

func TestANodeMountsWhatTheMachineHas(t *testing.T) {
	t.Parallel()
	require.Equal(t, [][]string{{"mount", "cgroup2", "cgroup2", "/sys/fs/cgroup", ""}}, mounts([]hierarchy{{v2: true}}))
	require.Equal(t, [][]string{
		{"mount", "tmpfs", "tmpfs", "/sys/fs/cgroup", "mode=755"},
		{"mount", "cgroup", "cgroup", "/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"},
		{"link", "cpu,cpuacct", "/sys/fs/cgroup/cpu"},
		{"link", "cpu,cpuacct", "/sys/fs/cgroup/cpuacct"},
		{"mount", "cgroup", "cgroup", "/sys/fs/cgroup/systemd", "none,name=systemd"},
		{"mount", "cgroup2", "cgroup2", "/sys/fs/cgroup/unified", ""},
	}, mounts([]hierarchy{
		{name: "cpu,cpuacct", options: "cpu,cpuacct"},
		{name: "systemd", options: "none,name=systemd"},
		{name: "unified", v2: true},
	}))
	require.Equal(t, [][]string{
		{"mkdir", "/sys/fs/cgroup/init"},
		{"join", "/sys/fs/cgroup/init"},
		{"write", "/sys/fs/cgroup/cgroup.subtree_control", "+cpu +memory"},
	}, delegate("cpu memory\n"), "with version 2 a group holds processes or delegates controllers, not both")
}

// tree creates a folder with files, given by their paths.
func tree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, data := range files {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
	}
	return root
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(data)
}

func TestWhatNodesMissInControlGroupsIsOneLine(t *testing.T) {
	t.Parallel()
	v1 := func(controllers ...string) []hierarchy {
		var all []hierarchy
		for _, c := range controllers {
			all = append(all, hierarchy{dir: t.TempDir(), name: c, options: c})
		}
		return all
	}
	v2 := func(name, controllers string) hierarchy {
		return hierarchy{dir: tree(t, map[string]string{controllersFile: controllers + "\n"}), name: name, v2: true}
	}
	for _, tc := range []struct {
		name string
		all  []hierarchy
		want string
	}{
		{name: "version 2 with all controllers", all: []hierarchy{v2("", "cpuset cpu io memory hugetlb pids rdma misc")}},
		{name: "version 2 that was delegated to a user, without all controllers", all: []hierarchy{v2("", "memory pids")}, want: "control groups have no cpu: start the kernel with cgroup_enable=cpu, or hand it on to this container"},
		{name: "version 1 with all controllers", all: v1("cpu", "cpuset", "memory", "pids")},
		{name: "version 1 with all controllers, and version 2 with the rest", all: append(v1("cpu", "cpuset", "memory", "pids"), v2("unified", "hugetlb"))},
		{name: "version 1 without memory, as on some small boards", all: v1("cpu", "cpuset", "pids"), want: "control groups have no memory: start the kernel with cgroup_enable=memory"},
		{name: "version 2 has what version 1 lacks", all: append(v1("cpu", "cpuset", "pids"), v2("unified", "memory")), want: "control groups of version 1 have no memory, as those of version 2 have it: start the machine with version 2 alone"},
		{name: "they are not writable", all: []hierarchy{{dir: "/nowhere", v2: true}}, want: "/nowhere: no such file or directory (in a container, it has to be a privileged one)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := missingControllers(tc.all)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestANodeIsGivenTheControllersThatItUses(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"cgroup.controllers":              "cpuset cpu io memory hugetlb pids rdma misc dmem\n",
		"flotilla-lab/cgroup.controllers": "cpuset cpu io memory pids\n",
	})
	all := []hierarchy{{dir: root, v2: true}}
	groups, err := makeGroups(all, "7-node-2")
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(root, "flotilla-lab/7-node-2")}, groups)
	require.DirExists(t, groups[0])
	require.Equal(t, "+cpu +cpuset +memory +pids +hugetlb +io", read(t, root, subtreeFile), "one rejected controller fails the whole write, so none is requested in vain")
	require.Equal(t, "+cpu +cpuset +memory +pids +io", read(t, root, groupFolder, subtreeFile), "a controller that the parent group lacks is not requested")
	require.NoFileExists(t, filepath.Join(groups[0], subtreeFile), "the node does that itself, after leaving this group")

	n := drawn(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, groupFolder, subtreeFile), []byte("cpuset memory\n"), 0o600))
	steps, err := n.steps(all, groups)
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"propagate", "private"},
		{"join", groups[0]},
		{"cgroupns"},
		{"hostname", "node-2"},
		{"mount", "proc", "proc", "/proc", ""},
		{"mount", "sysfs", "sysfs", "/sys", ""},
		{"mount", "cgroup2", "cgroup2", "/sys/fs/cgroup", ""},
		{"mkdir", "/sys/fs/cgroup/init"},
		{"join", "/sys/fs/cgroup/init"},
		{"write", "/sys/fs/cgroup/cgroup.subtree_control", "+cpuset +memory"},
	}, steps[:10], "it is in its group before that becomes the root, and leaves it before controllers are delegated")

	_, err = makeGroups([]hierarchy{{dir: t.TempDir(), v2: true}}, "7-node-2")
	require.ErrorContains(t, err, "hand on the controllers of ")
}

func TestAGroupThatIsNotVacatedSaysSo(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{procsFile: "4711\n"})
	require.ErrorContains(t, vacate(root), "it holds processes that stay there: run the lab on the machine itself")
	require.Equal(t, "4711", read(t, root, initGroup, procsFile))
	require.NoError(t, vacate(tree(t, map[string]string{procsFile: ""})))
}

func TestWithVersion1CPUsAreHandedOn(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"})
	unified := t.TempDir()
	all := []hierarchy{{dir: root, name: "cpuset", options: "cpuset"}, {dir: unified, name: "unified", v2: true}}
	groups, err := makeGroups(all, "7-node-2")
	require.NoError(t, err)
	require.Len(t, groups, 2)
	require.Equal(t, "0-1\n", read(t, groups[0], "cpuset.cpus"))
	require.Equal(t, "0\n", read(t, root, groupFolder, "cpuset.mems"))
	require.NoFileExists(t, filepath.Join(unified, subtreeFile), "version 2 beside version 1 has nothing to delegate")
}

func TestOnlyTheGroupsOfThatNameAreRemoved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	all := []hierarchy{{dir: root}}
	for _, dir := range []string{"7-node-1/kubepods/besteffort", "7-node-10/kubepods", "7-node-2", "17-node-1"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, groupFolder, dir), 0o755))
	}
	left := func() []string {
		var names []string
		entries, err := os.ReadDir(filepath.Join(root, groupFolder))
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	c := &Cluster{network: 7}
	require.NoError(t, removeGroups(t.Context(), all, c.nodeGroup(1)))
	require.Equal(t, []string{"17-node-1", "7-node-10", "7-node-2"}, left())
	require.DirExists(t, filepath.Join(root, groupFolder, "7-node-10/kubepods"), "a running node keeps even its empty groups")
	require.NoError(t, removeGroups(t.Context(), all, c.network.groupPrefix()+"*"))
	require.Equal(t, []string{"17-node-1"}, left())
	require.NoError(t, removeGroups(t.Context(), all, "none"))
}
