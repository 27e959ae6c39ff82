package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	cgroupRoot   = "/sys/fs/cgroup"
	groupFolder  = "flotilla-lab"
	groupEnd     = 10 * time.Second
	groupEndPoll = 50 * time.Millisecond
	// initGroup is where a node's own processes are: with version 2, a group
	// that has groups with controllers below it has no processes itself.
	initGroup = "init"
)

// hierarchy is a tree of control groups: one with version 2, several with
// version 1.
type hierarchy struct {
	// name is the folder below /sys/fs/cgroup; empty when it is that itself.
	name string
	v2   bool
	// options of the mount, such as "cpu,cpuacct"; empty with version 2.
	options string
}

// unified says whether version 2 is all that the machine has.
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
// source and the options of the file system.
func parseHierarchies(mountinfo string) []hierarchy {
	var out []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 || !strings.HasPrefix(left[4]+"/", cgroupRoot+"/") {
			continue
		}
		h := hierarchy{name: strings.TrimPrefix(strings.TrimPrefix(left[4], cgroupRoot), "/")}
		switch right[0] {
		case "cgroup2":
			h.v2 = true
		case "cgroup":
			h.options = v1Options(right[2])
		default:
			continue
		}
		// A mount over another hides it.
		out = slices.DeleteFunc(out, func(o hierarchy) bool { return o.name == h.name })
		out = append(out, h)
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
		case o == "rw", o == "ro", o == "xattr", o == "clone_children", o == "noprefix", o == "cpuset_v2_mode", strings.Contains(o, "="):
		default:
			keep = append(keep, o)
		}
	}
	return strings.Join(keep, ",")
}

func (h hierarchy) root() string { return filepath.Join(cgroupRoot, h.name) }

func (h hierarchy) group(name string) string { return filepath.Join(h.root(), groupFolder, name) }

// mounts are the steps that show a node its own groups as if they were all.
func mounts(all []hierarchy) [][]string {
	if unified(all) {
		return [][]string{{"mount", "cgroup2", "cgroup2", cgroupRoot, ""}}
	}
	steps := [][]string{{"mount", "tmpfs", "tmpfs", cgroupRoot, "mode=755"}}
	for _, h := range all {
		if h.v2 {
			steps = append(steps, []string{"mount", "cgroup2", "cgroup2", h.root(), ""})
			continue
		}
		steps = append(steps, []string{"mount", "cgroup", "cgroup", h.root(), h.options})
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
		{"write", filepath.Join(cgroupRoot, "cgroup.subtree_control"), enableAll(controllers)},
	}
}

// enableAll turns "cpu memory" into "+cpu +memory".
func enableAll(controllers string) string {
	f := strings.Fields(controllers)
	for i := range f {
		f[i] = "+" + f[i]
	}
	return strings.Join(f, " ")
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
			err = enableDown(h.root(), filepath.Dir(group))
		case strings.Contains(h.options, "cpuset"):
			err = copyDown(h.root(), filepath.Dir(group), group)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, group)
	}
	return out, nil
}

// enableDown hands all controllers on from group to group (version 2).
func enableDown(groups ...string) error {
	for _, g := range groups {
		have, err := os.ReadFile(filepath.Join(g, "cgroup.controllers"))
		if err == nil {
			err = os.WriteFile(filepath.Join(g, "cgroup.subtree_control"), []byte(enableAll(string(have))), 0)
		}
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("hand on the controllers of %s: it holds processes, as in a container; run the lab on the machine itself", g)
		}
		if err != nil {
			return fmt.Errorf("hand on the controllers of %s: %w", g, err)
		}
	}
	return nil
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

// removeGroups removes the groups whose names begin so, with all that is below
// them. Their processes must have been killed; the kernel may need a moment.
func removeGroups(ctx context.Context, prefix string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		groups, err := filepath.Glob(h.group(prefix + "*"))
		if err != nil {
			return fmt.Errorf("remove control groups: %w", err)
		}
		for _, g := range groups {
			var last error
			err := wait.PollUntilContextTimeout(ctx, groupEndPoll, groupEnd, true, func(context.Context) (bool, error) {
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

// removeGroup removes a group and those below it, the deepest first.
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
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return err
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
