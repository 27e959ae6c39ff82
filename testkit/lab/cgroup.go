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
	// initGroup is where a node's own processes are: with version 2, a group
	// that has groups with controllers below it has no processes itself.
	initGroup = "init"
	// vacateTries is how often a group's processes are moved out of it: some
	// may start others meanwhile.
	vacateTries = 10

	procsFile       = "cgroup.procs"
	controllersFile = "cgroup.controllers"
	subtreeFile     = "cgroup.subtree_control"
)

// hierarchy is a tree of control groups: one with version 2, several with
// version 1.
type hierarchy struct {
	// dir is where the machine has it.
	dir string
	// name is where a node has it, below /sys/fs/cgroup; empty when it is that
	// itself.
	name string
	v2   bool
	// options of the mount, such as "cpu,cpuacct"; empty with version 2.
	options string
}

// neededControllers are those without which kubelet does not start.
func neededControllers() []string { return []string{"cpu", "cpuset", "memory", "pids"} }

// usedControllers are those of version 2 that a node is given, if the machine
// has them: what kubelet and runc use. The others are left alone, as the kernel
// takes a list of controllers as a whole, or not at all.
func usedControllers() []string { return append(neededControllers(), "hugetlb", "io") }

// v1Controllers are all that version 1 ever had.
func v1Controllers() []string {
	return []string{
		"blkio", "cpu", "cpuacct", "cpuset", "debug", "devices", "freezer", "hugetlb", "memory", "misc",
		"net_cls", "net_prio", "perf_event", "pids", "rdma",
	}
}

// unified reports whether nodes live by version 2. It is what the programs in them
// go by, too: the file system that is at /sys/fs/cgroup.
func unified(all []hierarchy) bool { return len(all) == 1 && all[0].v2 && all[0].name == "" }

// hierarchies finds out how the machine is set up.
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

// parseHierarchies reads /proc/PID/mountinfo (proc_pid_mountinfo(5)): the
// mount point is the fifth field; after the one that is "-" come the type, the
// source and the options of the file system. Where version 2 is at the root,
// what else is mounted below (net_cls, by some VPNs) is no concern of nodes.
func parseHierarchies(mountinfo string) []hierarchy {
	var out []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 || !strings.HasPrefix(left[4]+"/", cgroupRoot+"/") {
			continue
		}
		h := hierarchy{dir: left[4], name: strings.TrimPrefix(strings.TrimPrefix(left[4], cgroupRoot), "/")}
		// A mount hides what was mounted before, there and below.
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

// v1Options keeps of the options of a mount those that say which hierarchy it
// is: the controllers, or the name of one without any.
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

// inNode is where a node has the hierarchy.
func (h hierarchy) inNode() string { return filepath.Join(cgroupRoot, h.name) }

func (h hierarchy) group(name string) string { return filepath.Join(h.dir, groupFolder, name) }

// sufficient says in one line what nodes miss in the machine's control groups.
func sufficient(all []hierarchy) error {
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
			return fmt.Errorf("control groups of version 1 have no %s, as those of version 2 have it: start the machine with version 2 alone (systemd.unified_cgroup_hierarchy=1)", need)
		default:
			return fmt.Errorf("control groups have no %s: start the kernel with cgroup_enable=%[1]s, or hand it on to this container", need)
		}
	}
	return nil
}

// mounts are the steps that show a node its own groups as if they were all.
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

// delegate are the steps by which a node hands the controllers of version 2 on
// to the groups of its pods.
func delegate(controllers string) [][]string {
	group := filepath.Join(cgroupRoot, initGroup)
	return [][]string{
		{"mkdir", group},
		{"join", group},
		{"write", filepath.Join(cgroupRoot, subtreeFile), enable(strings.Fields(controllers))},
	}
}

// enable is what a group is told to hand controllers on: "+cpu +memory".
func enable(controllers []string) string {
	out := make([]string, len(controllers))
	for i, c := range controllers {
		out[i] = "+" + c
	}
	return strings.Join(out, " ")
}

// makeGroups makes a node's group in each hierarchy and returns them.
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
			err = enableDown(h.dir, filepath.Dir(group))
		case slices.Contains(strings.Split(h.options, ","), "cpuset"):
			err = copyDown(h.dir, filepath.Dir(group), group)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, group)
	}
	return out, nil
}

// enableDown hands controllers on from group to group (version 2). The
// machine's root group may hold processes and hand on controllers as well; any
// other, such as the one that a container takes for the root, may not.
func enableDown(groups ...string) error {
	for _, g := range groups {
		err := handOn(g)
		if errors.Is(err, unix.EBUSY) {
			if err = vacate(g); err == nil {
				err = handOn(g)
			}
		}
		if err != nil {
			return fmt.Errorf("hand on the controllers of %s: %w", g, err)
		}
	}
	return nil
}

func handOn(group string) error {
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
			if err != nil && !errors.Is(err, unix.ESRCH) { // It has ended meanwhile.
				return fmt.Errorf("move process %s to %s: %w", pid, below, err)
			}
		}
	}
	return errors.New("it holds processes that stay there: run the lab on the machine itself")
}

// copyDown hands CPUs and memory nodes on: with version 1 a new group has none.
func copyDown(groups ...string) error {
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

// removeGroups removes the groups of that name, a pattern as filepath.Match has
// it, with all that is below them. What still runs there is killed: the record
// of a process may be lost, its group is not. The kernel may need a moment.
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

// removeGroup ends what is in a group and in those below it, and removes them,
// the deepest first.
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
		data, _ := os.ReadFile(filepath.Join(d, procsFile)) // Gone, or a group that cannot have any.
		for pid := range strings.FieldsSeq(string(data)) {
			killMember(pid, filepath.Base(group))
		}
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return err
}

// killMember kills a process if it is in the group of that name or below it.
// The descriptor makes sure that what is looked at is what is killed.
func killMember(pid, group string) {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return // 0 is one that we cannot see.
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return // It has ended.
	}
	defer func() { _ = unix.Close(fd) }()
	groups, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(groups)) {
		if strings.Contains(strings.TrimSpace(line)+"/", "/"+groupFolder+"/"+group+"/") {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // If it fails, so does the removal.
			return
		}
	}
}

// removeGroupRoot removes what held the groups of all nodes.
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
