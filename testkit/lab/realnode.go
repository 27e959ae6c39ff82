package lab

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// realLabel marks the nodes that have a kubelet.
	realLabel      = "lab.flotilla.io/real"
	realPrefix     = "node-"
	nodeFolder     = "node"
	proxyFile      = "kube-proxy.kubeconfig"
	pauseImage     = "lab.example/pause:1"
	pauseArchive   = "pause.tar"
	kubeletClient  = "kubelet-client"
	nodeStepsFile  = "steps.json"
	nodeBootPath   = "/usr/sbin:/usr/bin:/sbin:/bin"
	containerdSock = "/run/containerd/containerd.sock"

	// shutdownGrace is how long a node may take to stop. It is longer than its first process takes for that.
	shutdownGrace = 15 * time.Second
	// realLeaseSeconds is the duration of a node's Lease. kubelet renews it after a quarter.
	realLeaseSeconds = 20
)

//go:embed node
var nodeFiles embed.FS

// nodeSettings returns kernel settings as kubelet wants them. kubelet finds them in plain files mounted over the real ones, so that the
// machine keeps its own settings.
func nodeSettings() map[string]string {
	return map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
}

// RealNodes returns the names of the cluster's nodes with a kubelet, running or not.
func (c *Cluster) RealNodes() []string {
	var numbers []int
	entries, _ := os.ReadDir(c.path(nodeFolder)) // A missing folder means no nodes.
	for _, e := range entries {
		if n, err := nodeNumber(e.Name()); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = realPrefix + strconv.Itoa(n)
	}
	return names
}

// StopNode shuts a node down as its operator would: first kubelet, then the processes in the pods, each with a few seconds to end. The node's
// disk stays for StartNode. It succeeds if the node isn't running.
func (c *Cluster) StopNode(ctx context.Context, name string) error {
	return c.endNode(ctx, name, shutdownGrace)
}

// KillNode ends a node at once, like a power failure.
func (c *Cluster) KillNode(ctx context.Context, name string) error {
	return c.endNode(ctx, name, 0)
}

// StartNode starts a node that was stopped or killed, and waits until it is Ready. It succeeds if the node is running already.
func (c *Cluster) StartNode(ctx context.Context, name string) error {
	i, err := c.realNode(name)
	if err != nil {
		return err
	}
	unlock, err := lockState(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	return c.startNodes(ctx, []int{i})
}

func (c *Cluster) endNode(ctx context.Context, name string, grace time.Duration) error {
	i, err := c.realNode(name)
	if err != nil {
		return err
	}
	unlock, err := lockState(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := FindProcess(c.Dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.Stop(ctx, grace); err != nil {
		return err
	}
	groups, err := hierarchies()
	if err != nil {
		return err
	}
	return removeGroups(ctx, groups, c.nodeGroup(i))
}

// realNode returns the number of a node of the cluster, given its name.
func (c *Cluster) realNode(name string) (int, error) {
	i, err := nodeNumber(name)
	if err != nil || !exists(c.path(nodeFolder, name)) {
		return 0, fmt.Errorf("cluster %s has no real node %q, only %q", c.Name, name, c.RealNodes())
	}
	return i, nil
}

func nodeNumber(name string) (int, error) {
	number, ok := strings.CutPrefix(name, realPrefix)
	if !ok {
		return 0, fmt.Errorf("%q is no node's name", name)
	}
	return strconv.Atoi(number)
}

func (c *Cluster) nodeGroup(i int) string {
	return c.network.groupPrefix() + realPrefix + strconv.Itoa(i)
}

// ensureRealNodes starts node-1 to node-n, and existing nodes with higher numbers.
func (c *Cluster) ensureRealNodes(ctx context.Context, n int) error {
	numbers := make([]int, 0, n)
	for i := range n {
		numbers = append(numbers, i+1)
	}
	for _, name := range c.RealNodes() {
		if i, err := nodeNumber(name); err == nil && i > n {
			numbers = append(numbers, i)
		}
	}
	return c.startNodes(ctx, numbers)
}

// startNodes starts nodes concurrently and waits until they are Ready.
func (c *Cluster) startNodes(ctx context.Context, numbers []int) error {
	if len(numbers) == 0 {
		return nil
	}
	groups, err := hierarchies()
	if err != nil {
		return err
	}
	ca, err := loadAuthority(c.path("pki"), c.now())
	if err != nil {
		return err
	}
	since := c.now().Truncate(time.Second) // Heartbeats have this precision.
	errs := make([]error, len(numbers))
	var wg sync.WaitGroup
	for k, i := range numbers {
		wg.Go(func() { errs[k] = c.startNode(ctx, i, groups, ca) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.awaitRealNodes(ctx, numbers, since)
}

// awaitRealNodes waits until the nodes have reported Ready since they were started.
func (c *Cluster) awaitRealNodes(ctx context.Context, numbers []int, since time.Time) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	needed := []string{Etcd, APIServer, ControllerManager}
	for _, i := range numbers {
		needed = append(needed, realPrefix+strconv.Itoa(i))
	}
	return c.await(ctx, needed, "the nodes to be Ready", func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: realLabel + "=true"})
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		ready := 0
		for i := range list.Items {
			node := &list.Items[i]
			n, err := nodeNumber(node.Name)
			if err == nil && slices.Contains(numbers, n) && nodeReady(node) && heardSince(node, since) {
				ready++
			}
		}
		return ready == len(numbers), nil
	})
}

func heardSince(n *corev1.Node, since time.Time) bool {
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return !cond.LastHeartbeatTime.Time.Before(since)
		}
	}
	return false
}

// startNode starts the i-th node unless it is running, and creates its cable.
func (c *Cluster) startNode(ctx context.Context, i int, groups []hierarchy, ca *authority) error {
	n := realNode{Cluster: c, i: i, name: realPrefix + strconv.Itoa(i)}
	p, err := FindProcess(c.Dir, n.name)
	if err != nil || !p.Alive() {
		p, err = n.boot(ctx, groups, ca)
	}
	if err == nil {
		err = p.orLastOutput(thisMachine().connect(ctx, c.network, i, p.PID))
	}
	if err != nil {
		return fmt.Errorf("cluster %s: start %s: %w", c.Name, n.name, err)
	}
	return nil
}

// boot removes what an earlier run of the node left, and starts its first process, which then waits for its cable.
func (n realNode) boot(ctx context.Context, groups []hierarchy, ca *authority) (*Process, error) {
	if err := n.write(ca); err != nil {
		return nil, err
	}
	// Leftover groups would be taken for running containers.
	if err := removeGroups(ctx, groups, n.nodeGroup(n.i)); err != nil {
		return nil, err
	}
	// The cable disappears with its namespace, but perhaps not yet.
	if err := ignoreMissing(thisMachine().ip(ctx, "link del "+n.network.link(n.i))); err != nil {
		return nil, err
	}
	join, err := makeGroups(groups, n.nodeGroup(n.i))
	if err != nil {
		return nil, err
	}
	steps, err := n.steps(groups, join)
	if err != nil {
		return nil, err
	}
	if err := writeJSON(n.path(nodeStepsFile), steps); err != nil {
		return nil, err
	}
	return n.Start(Command{
		Name: n.name, Args: []string{n.nodeBin.Path("labnode"), n.path(nodeStepsFile)},
		Env: []string{"PATH=" + n.nodeBin.Dir + ":" + nodeBootPath}, isolated: true,
	})
}

// realNode is a node with a kubelet. Its disk is a folder in the cluster's folder.
type realNode struct {
	*Cluster

	i    int
	name string
}

func (n realNode) path(elem ...string) string {
	return n.Cluster.path(append([]string{nodeFolder, n.name}, elem...)...)
}

func (n realNode) log(program string) string {
	return filepath.Join(n.LogDir, n.name+"-"+program+".log")
}

// write writes the node's settings and, the first time, its credentials.
func (n realNode) write(ca *authority) error {
	registry := filepath.Join("etc", "registry", RegistryAddress)
	for _, dir := range []string{"kubelet", "containerd", "cni", "pod-logs", "sysctl", filepath.Join("etc", "cni"), registry} {
		if err := os.MkdirAll(n.path(dir), 0o700); err != nil {
			return err
		}
	}
	if err := os.Chmod(n.path("kubelet"), 0o755); err != nil {
		return err
	}
	resolv := n.path("etc", "resolv.conf")
	files := map[string]string{resolv: "nameserver " + n.network.controlPlane() + "\n"}
	for name, value := range nodeSettings() {
		files[n.path("sysctl", strings.ReplaceAll(name, "/", "."))] = value + "\n"
	}
	for file, data := range files {
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			return err
		}
	}
	err := errors.Join(
		render("kubelet.yaml", n.path("etc", "kubelet.yaml"), map[string]any{
			"CA": n.Cluster.path("pki", "ca.crt"), "DNS": n.network.controlPlane(), "ResolvConf": resolv, "LeaseSeconds": realLeaseSeconds,
		}),
		render("containerd.toml", n.path("etc", "containerd.toml"), map[string]any{
			"Pause": pauseImage, "Registries": n.path("etc", "registry"), "Runc": n.nodeBin.Path("runc"),
			"Bin": n.nodeBin.Dir, "CNI": n.path("etc", "cni"),
		}),
		render("cni.conflist", n.path("etc", "cni", "lab.conflist"), map[string]any{"Pods": n.network.nodePods(n.i)}),
		render("hosts.toml", n.path(registry, "hosts.toml"), map[string]any{"Registry": RegistryAddress}),
	)
	if err != nil || exists(n.path("etc", "kubeconfig")) {
		return err
	}
	client, err := ca.issue(subject{user: "system:node:" + n.name, groups: []string{"system:nodes"}})
	if err != nil {
		return err
	}
	return writeKubeconfig(n.path("etc", "kubeconfig"), n.Name, n.ServerURL, n.CA, client)
}

// steps returns what the node's first process does, in the language of e2e/kube/cmd/labnode.
func (n realNode) steps(groups []hierarchy, join []string) ([][]string, error) {
	steps := [][]string{
		{"propagate", "private"},
		append([]string{"join"}, join...),
		{"cgroupns"},
		{"hostname", n.name},
		{"mount", "proc", "proc", "/proc", ""},
		{"mount", "sysfs", "sysfs", "/sys", ""},
	}
	steps = append(steps, mounts(groups)...)
	if unified(groups) {
		controllers, err := os.ReadFile(filepath.Join(filepath.Dir(join[0]), subtreeFile))
		if err != nil {
			return nil, fmt.Errorf("read controllers: %w", err)
		}
		steps = append(steps, delegate(string(controllers))...)
	}
	keep := []string{n.Dir, n.Bin.Dir, n.nodeBin.Dir}
	for _, folder := range []string{"/run", "/var/lib", "/var/log"} {
		steps = append(steps, append([]string{"cover", folder}, keep...))
	}
	steps = append(steps,
		[]string{"bind", n.path("kubelet"), "/var/lib/kubelet"},
		[]string{"bind", n.path("containerd"), "/var/lib/containerd"},
		[]string{"bind", n.path("cni"), "/var/lib/cni"},
		[]string{"bind", n.path("pod-logs"), "/var/log/pods"},
		// Queries for external names get an answer at once, instead of a long silence.
		[]string{"bind", n.path("etc", "resolv.conf"), "/etc/resolv.conf"},
		[]string{"mkdir", "/var/log/containers", "/run/lock", "/run/containerd"},
	)
	for name := range nodeSettings() {
		if exists("/proc/sys/" + name) {
			steps = append(steps, []string{"bind", n.path("sysctl", strings.ReplaceAll(name, "/", ".")), "/proc/sys/" + name})
		}
	}
	steps = append(steps, []string{"propagate", "shared"})
	steps = append(steps, n.networkSteps()...)
	return append(steps, n.programSteps()...), nil
}

func (n realNode) networkSteps() [][]string {
	address := n.network.node(n.i)
	return [][]string{
		{"write", "/proc/sys/net/ipv4/ip_forward", "1"},
		{"write", "/proc/sys/net/bridge/bridge-nf-call-iptables", "1"},
		{"run", "ip", "link", "set", "lo", "up"},
		{"waitlink", "eth0"},
		{"run", "ip", "addr", "add", address + "/32", "dev", "eth0"},
		{"run", "ip", "link", "set", "eth0", "up"},
		{"run", "ip", "route", "add", routerAddress + "/32", "dev", "eth0", "src", address},
		{"run", "ip", "route", "add", "default", "via", routerAddress, "dev", "eth0", "src", address},
	}
}

func (n realNode) programSteps() [][]string {
	zone := fmt.Sprintf("zone-%c", 'a'+(n.i-1)%n.config.Zones)
	return [][]string{
		{"start", "containerd", n.log("containerd"), n.nodeBin.Path("containerd"), "-c", n.path("etc", "containerd.toml")},
		{
			"start", "kube-proxy", n.log("kube-proxy"), n.Bin.Path("kube-proxy"),
			"--kubeconfig=" + n.Cluster.path(proxyFile), "--proxy-mode=iptables", "--cluster-cidr=" + n.network.pods(),
			"--hostname-override=" + n.name, "--conntrack-max-per-core=0", "--conntrack-min=0",
			"--iptables-min-sync-period=100ms", "--metrics-bind-address=127.0.0.1:10249",
		},
		{"waitsocket", containerdSock},
		{"run", n.nodeBin.Path("ctr"), "-n", "k8s.io", "images", "import", n.nodeBin.Path(pauseArchive)},
		{
			"start", "kubelet", n.log("kubelet"), n.Bin.Path("kubelet"),
			"--config=" + n.path("etc", "kubelet.yaml"), "--kubeconfig=" + n.path("etc", "kubeconfig"),
			"--cert-dir=" + n.path("etc"), "--hostname-override=" + n.name, "--node-ip=" + n.network.node(n.i),
			"--node-labels=" + realLabel + "=true," + corev1.LabelTopologyZone + "=" + zone,
		},
	}
}

// render writes one of the templates in node/.
func render(name, file string, values map[string]any) error {
	t, err := template.New(name).Option("missingkey=error").ParseFS(nodeFiles, "node/"+name)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	var out strings.Builder
	if err := t.Execute(&out, values); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
