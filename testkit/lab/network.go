package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The network of real nodes is one router: a network namespace to which each node, and this machine, is connected by its own cable (a veth
// pair). The router forwards between them and has no route out, so neither do the nodes. This machine has routes to nodes and pods, so
// whatever runs on it, such as control planes and tests, reaches them at their own addresses.
//
// A cluster's control plane has the last address of the cluster's network, which this machine holds and uses to talk to the cluster's nodes.
// So a cluster, including its control plane, is a range of addresses, and cutting two clusters off from each other takes only a rule about
// two ranges, in one place.
const (
	// HostAddress is the address of this machine, as real nodes and their pods see it.
	HostAddress = "10.129.0.1"
	// RegistryAddress is where real nodes expect a registry that speaks plain HTTP. The lab itself doesn't run one.
	RegistryAddress = HostAddress + ":5000"

	routerAddress = "10.129.0.254"
	hostLink      = "flotilla0"
	routerLink    = "host0"

	// maxNetworks keeps the second number of pod networks below 230.
	maxNetworks = 99
	// cutPriority makes the rules of cuts apply before the routes.
	cutPriority = "100"
)

// network is the number of a cluster's networks, starting at 1.
type network int

// nodes returns the address range of the cluster's nodes and control plane.
func (n network) nodes() string { return fmt.Sprintf("10.129.%d.0/24", n) }

// pods returns the address range of the cluster's pods.
func (n network) pods() string { return fmt.Sprintf("10.%d.0.0/16", 130+n) }

func (n network) controlPlane() string { return fmt.Sprintf("10.129.%d.254", n) }

// node returns the address of the i-th node, counted from 1.
func (n network) node(i int) string { return fmt.Sprintf("10.129.%d.%d", n, i) }

// nodePods returns the address range of the i-th node's pods.
func (n network) nodePods(i int) string { return fmt.Sprintf("10.%d.%d.0/24", 130+n, i) }

// link returns the name of the router's end of the i-th node's cable.
func (n network) link(i int) string { return fmt.Sprintf("node%d-%d", n, i) }

// groupPrefix returns the prefix of the names of the cluster's control groups.
func (n network) groupPrefix() string { return fmt.Sprintf("%d-", n) }

// hostUp returns the commands (for ip -batch) that make the cluster's control plane an address of this machine, and route to the cluster from
// that address.
func (n network) hostUp() []string {
	return []string{
		"addr replace " + n.controlPlane() + "/32 dev " + hostLink,
		"route replace " + n.nodes() + " via " + routerAddress + " dev " + hostLink + " onlink src " + n.controlPlane(),
		"route replace " + n.pods() + " via " + routerAddress + " dev " + hostLink + " onlink src " + n.controlPlane(),
	}
}

func (n network) routerUp() []string {
	return []string{"route replace " + n.controlPlane() + "/32 dev " + routerLink}
}

// hostDown undoes hostUp. The router's routes disappear with the nodes' cables, except for the one to the control plane, which points at this
// machine as before.
func (n network) hostDown() []string {
	return []string{
		"route del " + n.nodes(),
		"route del " + n.pods(),
		"addr del " + n.controlPlane() + "/32 dev " + hostLink,
	}
}

// linkCommand returns the router's command that creates the cable to the i-th node, whose first process is pid.
func (n network) linkCommand(i, pid int) string {
	return fmt.Sprintf("link add %s type veth peer name eth0 netns %d", n.link(i), pid)
}

// nodeUp returns the router's commands that route to the i-th node and its pods.
func (n network) nodeUp(i int) []string {
	link := n.link(i)
	return []string{
		"addr replace " + routerAddress + "/32 dev " + link,
		"link set " + link + " up",
		"route replace " + n.node(i) + "/32 dev " + link,
		"route replace " + n.nodePods(i) + " via " + n.node(i) + " dev " + link + " onlink",
	}
}

// widest is the prefix length of a route that is too wide to show that the lab's networks are in use, such as a company's 10.0.0.0/8.
const widest = 8

// overlaps reports whether routes overlap the network's address ranges.
func (n network) overlaps(routes []netip.Prefix) bool {
	for _, ours := range []string{n.nodes(), n.pods()} {
		p := netip.MustParsePrefix(ours)
		if slices.ContainsFunc(routes, func(r netip.Prefix) bool { return r.Bits() > widest && r.Overlaps(p) }) {
			return true
		}
	}
	return false
}

// foreignRoutes returns the ranges that this machine has routes to, other than the lab's.
func foreignRoutes(ctx context.Context) ([]netip.Prefix, error) {
	out, err := exec.CommandContext(ctx, "ip", "-4", "route", "show").Output()
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return parseRoutes(string(out)), nil
}

// parseRoutes parses lines such as "10.1.0.0/16 via 10.0.0.1 dev eth0". A line may start with the type of the route if it isn't the usual
// one.
func parseRoutes(out string) []netip.Prefix {
	var routes []netip.Prefix
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if slices.Contains(f, hostLink) {
			continue
		}
		for _, word := range f[:min(2, len(f))] {
			if !strings.Contains(word, "/") {
				word += "/32"
			}
			if p, err := netip.ParsePrefix(word); err == nil {
				routes = append(routes, p)
				break
			}
		}
	}
	return routes
}

// makeRouter creates the router and its cable to this machine, unless they exist.
func (m machine) makeRouter(ctx context.Context) error {
	if err := m.makeNetns(); err != nil {
		return err
	}
	if !exists(filepath.Join("/sys/class/net", hostLink)) {
		err := ipHere(ctx, "link add "+hostLink+" type veth peer name "+routerLink+" netns "+m.netns())
		if err != nil {
			return err
		}
	}
	return errors.Join(
		ipHere(ctx,
			"addr replace "+HostAddress+"/32 dev "+hostLink,
			"link set "+hostLink+" up",
			"route replace "+routerAddress+"/32 dev "+hostLink+" src "+HostAddress),
		m.ip(ctx,
			"link set lo up",
			"addr replace "+routerAddress+"/32 dev "+routerLink,
			"link set "+routerLink+" up",
			"route replace "+HostAddress+"/32 dev "+routerLink),
	)
}

// makeNetns creates the router's network namespace, and makes a file hold it.
func (m machine) makeNetns() error {
	if m.routed() {
		return nil
	}
	if err := os.WriteFile(m.netns(), nil, 0o600); err != nil {
		return fmt.Errorf("make the router: %w", err)
	}
	made := make(chan error)
	go func() {
		// The thread never leaves its namespace: it ends with the goroutine.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
		}
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", m.netns(), "", unix.MS_BIND, "")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return fmt.Errorf("make the router: %w", err)
	}
	return nil
}

// routed reports whether the router exists. The file alone may be left over from an interrupted start.
func (m machine) routed() bool {
	var st unix.Statfs_t
	return unix.Statfs(m.netns(), &st) == nil && st.Type == unix.NSFS_MAGIC
}

func (m machine) dropRouter(ctx context.Context) error {
	if err := ignoreMissing(ipHere(ctx, "link del "+hostLink)); err != nil {
		return err
	}
	for {
		err := unix.Unmount(m.netns(), unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("remove the router: %w", err)
		}
	}
}

// ipHere runs ip commands in this machine's network, and stops at the first failure.
func ipHere(ctx context.Context, commands ...string) error {
	return ipBatch(exec.CommandContext(ctx, "ip", "-batch", "-"), commands)
}

// ip runs ip commands in the router.
func (m machine) ip(ctx context.Context, commands ...string) error {
	return ipBatch(exec.CommandContext(ctx, "nsenter", "--net="+m.netns(), "ip", "-batch", "-"), commands)
}

func ipBatch(cmd *exec.Cmd, commands []string) error {
	cmd.Env = append(os.Environ(), "LC_ALL=C") // The output is parsed.
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; "), err, bytes.TrimSpace(out))
	}
	return nil
}

// connect creates the cable to a node, unless it exists, and routes to the node. An interrupted start may have left any part of this.
func (m machine) connect(ctx context.Context, n network, i, pid int) error {
	if err := m.ip(ctx, n.linkCommand(i, pid)); err != nil && !strings.Contains(err.Error(), "File exists") {
		return err
	}
	return m.ip(ctx, n.nodeUp(i)...)
}

// ignoreMissing ignores errors that say that what was to be removed doesn't exist.
func ignoreMissing(err error) error {
	if err == nil || errors.Is(err, exec.ErrNotFound) {
		return err
	}
	for _, says := range []string{"No such process", "Cannot find device", "Cannot assign requested address", "No such file or directory", "not found"} {
		if strings.Contains(err.Error(), says) {
			return nil
		}
	}
	return err
}
