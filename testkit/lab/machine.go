package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// machine is what the real nodes of all labs on this machine share, whoever runs them: the network between them, the root of their control
// groups, and a kernel setting. Unlike clusters, it is not per state folder, because the kernel has only one of each. Its folder holds a file
// for each cluster with real nodes, named after the number of the cluster's network, and is removed with the last one.
type machine struct {
	dir  string
	lock string
}

const (
	machineFolder = "/run/flotilla-lab"
	inotifyFile   = "/proc/sys/fs/inotify/max_user_instances"
	// inotifyNeeded suffices for about forty nodes: a kubelet and its containerd take about twenty instances, and the default of 128 is for the
	// whole machine.
	inotifyNeeded = 1024
)

// tenant is what the machine records about a cluster.
type tenant struct {
	// Dir is the cluster's folder.
	Dir string `json:"dir"`
	// Tied reports whether the cluster's processes end with the test that created it. Such a cluster without processes is left over.
	Tied bool `json:"tied"`

	network network
}

func thisMachine() machine {
	return machine{dir: machineFolder, lock: machineFolder + ".lock"}
}

// netns returns the file that holds the router's network namespace.
func (m machine) netns() string { return filepath.Join(m.dir, "net") }

func (m machine) inotifyWas() string { return filepath.Join(m.dir, "inotify") }

// enter gives a cluster its own network, or the one that it had before (0 means none), and creates what it needs. It first removes leftovers
// of clusters that are gone.
func (m machine) enter(ctx context.Context, dir string, had network, tied bool) (network, error) {
	unlock, err := lock(ctx, m.lock)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := m.sweep(ctx, dir); err != nil {
		return 0, err
	}
	tenants, err := m.tenants()
	if err != nil {
		return 0, err
	}
	routes, err := foreignRoutes(ctx)
	if err != nil {
		return 0, err
	}
	n, err := choose(tenants, routes, dir, had)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return 0, fmt.Errorf("make the lab's network: %w", err)
	}
	if err := writeJSON(m.file(n), tenant{Dir: dir, Tied: tied}); err != nil {
		return 0, err
	}
	if err := m.raiseInotify(); err != nil {
		return 0, err
	}
	if err := m.makeRouter(ctx); err != nil {
		return 0, err
	}
	return n, errors.Join(ipHere(ctx, n.hostUp()...), m.ip(ctx, n.routerUp()...))
}

// leave removes everything that the machine holds for the cluster in that folder, whose processes must have ended. After the last cluster, it
// also removes what all clusters share.
func (m machine) leave(ctx context.Context, dir string) error {
	if !exists(m.dir) || os.Geteuid() != 0 {
		return nil // Only root's clusters have real nodes.
	}
	unlock, err := lock(ctx, m.lock)
	if err != nil {
		return err
	}
	defer unlock()
	tenants, err := m.tenants()
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if t.Dir != dir {
			continue
		}
		if err := m.evict(ctx, t); err != nil {
			return err
		}
	}
	if err := m.sweep(ctx, dir); err != nil {
		return err
	}
	return m.closeIfEmpty(ctx)
}

// sweep removes what is left of clusters that were not taken down: clusters whose folder is gone, and clusters of a test that was killed.
func (m machine) sweep(ctx context.Context, but string) error {
	tenants, err := m.tenants()
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if t.Dir == but || !t.gone() {
			continue
		}
		if err := m.evict(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (t tenant) gone() bool {
	if !exists(t.Dir) {
		return true
	}
	if !t.Tied {
		return false
	}
	processes, err := Processes(t.Dir)
	return err == nil && len(processes) > 0 && !slices.ContainsFunc(processes, (*Process).Alive)
}

// evict removes the cluster's addresses, routes, cuts and control groups, and ends nodes that have no record. It ignores what doesn't exist,
// because creation may have been interrupted at any point.
func (m machine) evict(ctx context.Context, t tenant) error {
	if m.routed() {
		rules, err := m.cuts(ctx)
		if err != nil {
			return err
		}
		for _, c := range rules {
			if c.touches(t.network) {
				if err := m.ruleDel(ctx, c); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range t.network.hostDown() {
		if err := ignoreMissing(ipHere(ctx, c)); err != nil {
			return err
		}
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	if err := removeGroups(ctx, all, t.network.groupPrefix()+"*"); err != nil {
		return err
	}
	return os.Remove(m.file(t.network))
}

func (m machine) closeIfEmpty(ctx context.Context) error {
	tenants, err := m.tenants()
	if err != nil || len(tenants) > 0 {
		return err
	}
	if err := m.dropRouter(ctx); err != nil {
		return err
	}
	if err := m.restoreInotify(); err != nil {
		return err
	}
	if err := removeGroupRoot(); err != nil {
		return err
	}
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("remove the lab's network: %w", err)
	}
	return nil
}

// names lists the clusters with real nodes whose folders are in root.
func (m machine) names(ctx context.Context, root string) ([]string, error) {
	if !exists(m.dir) || os.Geteuid() != 0 {
		return nil, nil // Only root's clusters have real nodes.
	}
	unlock, err := lock(ctx, m.lock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	tenants, err := m.tenants()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range tenants {
		if filepath.Dir(t.Dir) == root && exists(t.Dir) {
			out = append(out, filepath.Base(t.Dir))
		}
	}
	return out, nil
}

func (m machine) file(n network) string {
	return filepath.Join(m.dir, strconv.Itoa(int(n))+".json")
}

// tenants lists the clusters with real nodes by the number of their network.
func (m machine) tenants() ([]tenant, error) {
	files, err := filepath.Glob(filepath.Join(m.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list clusters with real nodes: %w", err)
	}
	var out []tenant
	for _, f := range files {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".json"))
		if err != nil {
			continue // Not ours.
		}
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("list clusters with real nodes: %w", err)
		}
		t := tenant{network: network(n)}
		if err := json.Unmarshal(data, &t); err != nil {
			return nil, fmt.Errorf("read %s: %w", f, err)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b tenant) int { return cmp.Compare(a.network, b.network) })
	return out, nil
}

// choose returns the network that the folder's cluster has or had. Otherwise it returns the first network that no cluster has and that the
// machine's own routes don't overlap.
func choose(tenants []tenant, routes []netip.Prefix, dir string, had network) (network, error) {
	taken := map[network]string{}
	for _, t := range tenants {
		if t.Dir == dir {
			return t.network, nil
		}
		taken[t.network] = t.Dir
	}
	if had > 0 {
		// A cluster keeps its addresses for life: its certificates contain them.
		if other, ok := taken[had]; ok {
			return 0, fmt.Errorf("the network of %s was given to %s when it was down, as after a restart of the machine: take one of them down", dir, other)
		}
		return had, nil
	}
	for n := network(1); n <= maxNetworks; n++ {
		if _, ok := taken[n]; !ok && !n.overlaps(routes) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no network left: of %d, %d have clusters with real nodes, "+
		"and routes of this machine lead to the rest (ip route show)", maxNetworks, len(taken))
}

func (m machine) raiseInotify() error {
	limits, err := os.ReadFile(inotifyFile)
	if err != nil {
		return fmt.Errorf("raise fs.inotify.max_user_instances: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(limits)))
	if err != nil || n >= inotifyNeeded {
		return err
	}
	if err := os.WriteFile(m.inotifyWas(), limits, 0o600); err != nil {
		return fmt.Errorf("raise fs.inotify.max_user_instances: %w", err)
	}
	if err := os.WriteFile(inotifyFile, []byte(strconv.Itoa(inotifyNeeded)), 0); err != nil {
		return fmt.Errorf("raise fs.inotify.max_user_instances: %w", err)
	}
	return nil
}

// restoreInotify restores the setting, unless another program has changed it.
func (m machine) restoreInotify() error {
	saved, err := os.ReadFile(m.inotifyWas())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var current []byte
	if err == nil {
		current, err = os.ReadFile(inotifyFile)
	}
	if err == nil && strings.TrimSpace(string(current)) == strconv.Itoa(inotifyNeeded) {
		err = os.WriteFile(inotifyFile, saved, 0)
	}
	if err != nil {
		return fmt.Errorf("put back fs.inotify.max_user_instances: %w", err)
	}
	return nil
}
