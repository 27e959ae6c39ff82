package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

const (
	cgroupRoot   = "/sys/fs/cgroup"
	groupFolder  = "flotilla-lab"
	groupEnd     = 10 * time.Second
	groupEndPoll = 50 * time.Millisecond
	// initGroup is where a node's own processes are. In cgroup v2, a group whose child groups have controllers can't have processes itself.
	initGroup = "init"
	// vacateTries is how often moving a group's processes out of it is attempted: they may start others meanwhile.
	vacateTries = 10

	procsFile       = "cgroup.procs"
	controllersFile = "cgroup.controllers"
	subtreeFile     = "cgroup.subtree_control"
)

// hierarchy is a tree of control groups. There is one with cgroup v2, and several with v1.
type hierarchy struct {
	// dir is its path on the machine.
	dir string
	// name is its path in a node, below /sys/fs/cgroup. Empty means /sys/fs/cgroup itself.
	name string
	v2   bool
	// options are mount options, such as "cpu,cpuacct". Empty with v2.
	options string
}

// neededControllers returns the controllers that kubelet needs to start.
func neededControllers() []string { return []string{"cpu", "cpuset", "memory", "pids"} }

// usedControllers returns the v2 controllers that a node gets if the machine has them: those that kubelet and runc use. It leaves out the
// others, because the kernel accepts a list of controllers only as a whole.
func usedControllers() []string { return append(neededControllers(), "hugetlb", "io") }

// v1Controllers returns all controllers that v1 ever had.
func v1Controllers() []string {
	return []string{
		"blkio", "cpu", "cpuacct", "cpuset", "debug", "devices", "freezer", "hugetlb", "memory", "misc",
		"net_cls", "net_prio", "perf_event", "pids", "rdma",
	}
}

// unified reports whether nodes use v2. The programs in them use the same criterion: the file system at /sys/fs/cgroup.
func unified(all []hierarchy) bool { return len(all) == 1 && all[0].v2 && all[0].name == "" }

// hierarchies determines how the machine is set up.
func hierarchies() ([]hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	all := parseHierarchies(string(data))
	if len(all) == 0 {
		return nil, fmt.Errorf("find control groups: none are mounted at %s", cgroupRoot)
	}
	return all, nil
}

// parseHierarchies parses /proc/PID/mountinfo (proc_pid_mountinfo(5)): the mount point is the fifth field, and after the "-" follow the type,
// source and options of the file system. If v2 is at the root, other mounts below it (net_cls, by some VPNs) don't concern nodes.
func parseHierarchies(mountinfo string) []hierarchy {
	var out []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 || !strings.HasPrefix(left[4]+"/", cgroupRoot+"/") {
			continue
		}
		h := hierarchy{dir: left[4], name: strings.TrimPrefix(strings.TrimPrefix(left[4], cgroupRoot), "/")}
		// A mount hides what was mounted there and below before.
		out = slices.DeleteFunc(out, func(o hierarchy) bool { return strings.HasPrefix(o.dir+"/", h.dir+"/") })
		switch right[0] {
		case "cgroup2":
			h.v2 = true
		case "cgroup":
			h.options = v1Options(right[2])
		default:
			continue
		}
		out = append(out, h)
	}
	if i := slices.IndexFunc(out, func(h hierarchy) bool { return h.v2 && h.name == "" }); i >= 0 {
		return out[i : i+1]
	}
	return out
}

// v1Options keeps the mount options that identify the hierarchy: the controllers, or the name of a hierarchy without any.
func v1Options(all string) string {
	var keep []string
	for o := range strings.SplitSeq(all, ",") {
		switch {
		case strings.HasPrefix(o, "name="):
			keep = append(keep, "none", o)
		case slices.Contains(v1Controllers(), o):
			keep = append(keep, o)
		}
	}
	return strings.Join(keep, ",")
}

// inNode returns the path of the hierarchy in a node.
func (h hierarchy) inNode() string { return filepath.Join(cgroupRoot, h.name) }

func (h hierarchy) group(name string) string { return filepath.Join(h.dir, groupFolder, name) }

// missingControllers returns an error that says in one line what the machine's control groups lack for nodes.
func missingControllers(all []hierarchy) error {
	var have, elsewhere []string
	for _, h := range all {
		if err := unix.Access(h.dir, unix.W_OK); err != nil {
			return fmt.Errorf("%s: %w (in a container, it has to be a privileged one)", h.dir, err)
		}
		have = append(have, strings.Split(h.options, ",")...)
		if !h.v2 {
			continue
		}
		data, err := os.ReadFile(filepath.Join(h.dir, controllersFile))
		if err != nil {
			return fmt.Errorf("find controllers: %w", err)
		}
		elsewhere = append(elsewhere, strings.Fields(string(data))...)
	}
	if unified(all) {
		have, elsewhere = elsewhere, nil
	}
	for _, need := range neededControllers() {
		switch {
		case slices.Contains(have, need):
		case slices.Contains(elsewhere, need):
			return fmt.Errorf("control groups of version 1 have no %s, as those of version 2 have it: "+
				"start the machine with version 2 alone (systemd.unified_cgroup_hierarchy=1)", need)
		default:
			return fmt.Errorf("control groups have no %s: start the kernel with cgroup_enable=%[1]s, or hand it on to this container", need)
		}
	}
	return nil
}

// mounts returns the steps that show a node its own groups as if they were all there are.
func mounts(all []hierarchy) [][]string {
	if unified(all) {
		return [][]string{{"mount", "cgroup2", "cgroup2", cgroupRoot, ""}}
	}
	steps := [][]string{{"mount", "tmpfs", "tmpfs", cgroupRoot, "mode=755"}}
	for _, h := range all {
		if h.v2 {
			steps = append(steps, []string{"mount", "cgroup2", "cgroup2", h.inNode(), ""})
			continue
		}
		steps = append(steps, []string{"mount", "cgroup", "cgroup", h.inNode(), h.options})
		controllers := strings.Split(h.options, ",")
		if len(controllers) == 1 || controllers[0] == "none" {
			continue
		}
		for _, c := range controllers {
			steps = append(steps, []string{"link", h.name, filepath.Join(cgroupRoot, c)})
		}
	}
	return steps
}

// delegate returns the steps by which a node delegates v2 controllers to the groups of its pods.
func delegate(controllers string) [][]string {
	group := filepath.Join(cgroupRoot, initGroup)
	return [][]string{
		{"mkdir", group},
		{"join", group},
		{"write", filepath.Join(cgroupRoot, subtreeFile), enable(strings.Fields(controllers))},
	}
}

// enable returns what to write to a group to delegate controllers: "+cpu +memory".
func enable(controllers []string) string {
	out := make([]string, len(controllers))
	for i, c := range controllers {
		out[i] = "+" + c
	}
	return strings.Join(out, " ")
}

// makeGroups creates a node's group in each hierarchy and returns the groups.
func makeGroups(all []hierarchy, name string) ([]string, error) {
	var out []string
	for _, h := range all {
		group := h.group(name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return nil, fmt.Errorf("make control group: %w", err)
		}
		var err error
		switch {
		case unified(all):
			err = enableControllers(h.dir, filepath.Dir(group))
		case slices.Contains(strings.Split(h.options, ","), "cpuset"):
			err = copyCPUs(h.dir, filepath.Dir(group), group)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, group)
	}
	return out, nil
}

// enableControllers delegates controllers from group to group (v2). The machine's root group may hold processes and delegate controllers at the same
// time. Any other group may not, such as the one that a container sees as the root.
func enableControllers(groups ...string) error {
	for _, g := range groups {
		err := delegateDown(g)
		if errors.Is(err, unix.EBUSY) {
			if err = vacate(g); err == nil {
				err = delegateDown(g)
			}
		}
		if err != nil {
			return fmt.Errorf("hand on the controllers of %s: %w", g, err)
		}
	}
	return nil
}

func delegateDown(group string) error {
	have, err := os.ReadFile(filepath.Join(group, controllersFile))
	if err != nil {
		return err
	}
	controllers := slices.DeleteFunc(usedControllers(), func(c string) bool {
		return !slices.Contains(strings.Fields(string(have)), c)
	})
	return os.WriteFile(filepath.Join(group, subtreeFile), []byte(enable(controllers)), 0)
}

// vacate moves the processes of a group to a group below it.
func vacate(group string) error {
	below := filepath.Join(group, initGroup)
	if err := os.MkdirAll(below, 0o755); err != nil {
		return err
	}
	for range vacateTries {
		data, err := os.ReadFile(filepath.Join(group, procsFile))
		if err != nil {
			return err
		}
		processes := strings.Fields(string(data))
		if len(processes) == 0 {
			return nil
		}
		for _, pid := range processes {
			err := os.WriteFile(filepath.Join(below, procsFile), []byte(pid), 0)
			if err != nil && !errors.Is(err, unix.ESRCH) { // The process has ended meanwhile.
				return fmt.Errorf("move process %s to %s: %w", pid, below, err)
			}
		}
	}
	return errors.New("it holds processes that stay there: run the lab on the machine itself")
}

// copyCPUs passes on CPUs and memory nodes: with v1 a new group has none.
func copyCPUs(groups ...string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(groups[0], file))
		for _, g := range groups[1:] {
			if err == nil {
				err = os.WriteFile(filepath.Join(g, file), data, 0)
			}
		}
		if err != nil {
			return fmt.Errorf("hand on CPUs: %w", err)
		}
	}
	return nil
}

// removeGroups removes the groups whose name matches a filepath.Match pattern, with everything below them. It kills what still runs there:
// the record of a process may be lost, but its group is not. The kernel may need a moment.
func removeGroups(ctx context.Context, all []hierarchy, name string) error {
	for _, h := range all {
		groups, err := filepath.Glob(h.group(name))
		if err != nil {
			return fmt.Errorf("remove control groups: %w", err)
		}
		for _, g := range groups {
			var last error
			err := wait.PollUntilContextTimeout(ctx, groupEndPoll, testtimeout.Scale(groupEnd), true, func(context.Context) (bool, error) {
				last = removeGroup(g)
				return last == nil, nil
			})
			if err != nil {
				return fmt.Errorf("remove control group: %w", errors.Join(last, ctx.Err()))
			}
		}
	}
	return nil
}

// removeGroup kills everything in a group and below, and removes the groups, deepest first.
func removeGroup(group string) error {
	var dirs []string
	err := filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	slices.Reverse(dirs)
	for _, d := range dirs {
		data, _ := os.ReadFile(filepath.Join(d, procsFile)) // The group is gone, or can't have processes.
		for pid := range strings.FieldsSeq(string(data)) {
			killMember(pid, filepath.Base(group))
		}
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return err
}

// killMember kills a process if it is in the group with that name or below it. The pidfd ensures that the process that is checked is the one
// that is killed.
func killMember(pid, group string) {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return // 0 is a process that we can't see.
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return // The process has ended.
	}
	defer func() { _ = unix.Close(fd) }()
	groups, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(groups)) {
		if strings.Contains(strings.TrimSpace(line)+"/", "/"+groupFolder+"/"+group+"/") {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // If this fails, the removal fails too.
			return
		}
	}
}

// removeGroupRoot removes the root of all nodes' groups.
func removeGroupRoot() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := unix.Rmdir(h.group("")); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %s: %w", h.group(""), err)
		}
	}
	return nil
}
