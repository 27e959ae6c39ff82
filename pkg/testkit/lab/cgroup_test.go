package lab

import (
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
			want: []hierarchy{{v2: true}}, unified: true,
		},
		{
			name: "version 1, a folder for each controller, and version 2 beside",
			mountinfo: `30 24 0:26 / /sys/fs/cgroup rw - tmpfs none rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup none rw,cpu
32 30 0:28 / /sys/fs/cgroup/systemd rw,relatime - cgroup none rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 none rw
`,
			want: []hierarchy{{name: "cpu", options: "cpu"}, {name: "systemd", options: "none,name=systemd"}, {name: "unified", v2: true}},
		},
		{
			name: "version 1 as systemd mounts it, two controllers in one",
			mountinfo: `31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 master:2 - cgroup none rw,cpu,cpuacct,release_agent=/x
31 30 0:28 / /sys/fs/cgroup/cpuset rw,relatime - cgroup none rw,cpuset,clone_children
`,
			want: []hierarchy{{name: "cpu,cpuacct", options: "cpu,cpuacct"}, {name: "cpuset", options: "cpuset"}},
		},
		{
			name: "a mount over another counts once",
			mountinfo: `30 24 0:26 / /sys/fs/cgroup rw - cgroup2 none rw
40 30 0:26 / /sys/fs/cgroup rw - cgroup2 none rw
`,
			want: []hierarchy{{v2: true}}, unified: true,
		},
		{name: "mounts elsewhere, and lines that are cut off", mountinfo: "30 24 0:26 / /mnt/cgroup rw - cgroup2 none rw\n30 24\n30 24 0:26 / /sys/fs/cgroup rw - cgroup2\n"},
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
	}, delegate("cpu memory\n"), "with version 2 a group holds processes or hands on controllers, not both")
}
