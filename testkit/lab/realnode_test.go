package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// drawn returns a node whose files are written, in a cluster that was never started.
func drawn(t *testing.T) realNode {
	t.Helper()
	dir := t.TempDir()
	c := newCluster(dir, Config{Name: "east", Nodes: "real:2", Zones: 2}, Bin{Dir: "/programs"})
	c.network, c.nodeBin = 7, Bin{Dir: "/node-programs"}
	c.usePorts(map[string]int{portAPIServer: 20001})
	require.NoError(t, writePKI(c, clock.RealClock{}.Now()))
	require.NoError(t, c.writeFiles())
	ca, err := loadAuthority(filepath.Join(dir, "pki"), clock.RealClock{}.Now())
	require.NoError(t, err)
	n := realNode{Cluster: c, i: 2, name: "node-2"}
	require.NoError(t, n.write(ca))
	require.NoError(t, n.write(ca), "a second call changes nothing")
	return n
}

func TestANodeIsDrawnUpInFull(t *testing.T) {
	t.Parallel()
	n := drawn(t)
	require.Equal(t, "https://10.129.7.254:20001", n.ServerURL)
	require.Equal(t, []string{"node-2"}, n.RealNodes())
	require.Equal(t, []string{Etcd, APIServer, ControllerManager, Scheduler, Simulator, DNS, "node-2"}, n.Missing())
	for file, want := range map[string]string{
		"etc/kubelet.yaml":                        `clusterDNS: ["10.129.7.254"]`,
		"etc/containerd.toml":                     "BinaryName = '/node-programs/runc'",
		"etc/cni/lab.conflist":                    `"subnet": "10.137.2.0/24"`,
		"etc/registry/10.129.0.1:5000/hosts.toml": "server = 'http://10.129.0.1:5000'",
		"etc/kubeconfig":                          "server: https://10.129.7.254:20001",
	} {
		data, err := os.ReadFile(n.path(file))
		require.NoError(t, err)
		require.Contains(t, string(data), want)
	}

	steps, err := n.steps([]hierarchy{{name: "cpu", options: "cpu"}}, []string{"/sys/fs/cgroup/cpu/flotilla-lab/7-node-2"})
	require.NoError(t, err)
	at := func(verb, first string) int {
		return slices.IndexFunc(steps, func(s []string) bool { return s[0] == verb && (first == "" || s[1] == first) })
	}
	order := []int{
		at("propagate", "private"), at("join", ""), at("cgroupns", ""), at("mount", "cgroup"), at("cover", "/var/lib"),
		at("bind", n.path("kubelet")), at("propagate", "shared"), at("waitlink", "eth0"),
		at("start", "containerd"), at("waitsocket", ""), at("start", "kubelet"),
	}
	require.NotContains(t, order, -1, "%q", steps)
	require.True(t, slices.IsSorted(order), "%d", order)
	kubelet := steps[at("start", "kubelet")]
	require.Contains(t, kubelet, "--node-ip=10.129.7.2")
	require.Contains(t, kubelet, "--node-labels=lab.flotilla.io/real=true,topology.kubernetes.io/zone=zone-b")
	for _, s := range steps {
		if s[0] == "cover" {
			require.Contains(t, s, n.Dir, "files that a node needs must not be covered")
		}
	}
}

func TestOnlyNodesOfTheClusterAreKnown(t *testing.T) {
	t.Parallel()
	n := drawn(t)
	i, err := n.realNode("node-2")
	require.NoError(t, err)
	require.Equal(t, 2, i)
	for _, name := range []string{"node-1", "kwok-1", "node-", "node-2x", "", "../node-2"} {
		_, err := n.realNode(name)
		require.ErrorContains(t, err, `cluster east has no real node`, name)
	}
	require.ErrorContains(t, n.StopNode(t.Context(), "node-1"), `only ["node-2"]`)
	_, err = n.NodeExec(t.Context(), "node-2", nil, "true")
	require.ErrorContains(t, err, "cluster east: node-2 does not run")
	require.ErrorContains(t, n.StopNode(t.Context(), "kwok-1"), "no real node")
	require.NoError(t, n.StopNode(t.Context(), "node-2"), "a node that is not running is stopped")
}

func TestFlagsOfAClusterThatNodesReach(t *testing.T) {
	t.Parallel()
	n := drawn(t)
	api, err := n.args(APIServer)
	require.NoError(t, err)
	require.Subset(t, api, []string{"--bind-address=10.129.7.254", "--advertise-address=10.129.7.254", "--enable-aggregator-routing=true"})
	require.NotContains(t, strings.Join(api, " "), "--endpoint-reconciler-type")
	dns, err := n.args(DNS)
	require.NoError(t, err)
	require.Equal(t, []string{"/node-programs/labdns", "--kubeconfig=" + n.Cluster.path(dnsKubeconfig), "--listen=10.129.7.254:53"}, dns)
	simulator, err := n.args(Simulator)
	require.NoError(t, err)
	require.Contains(t, simulator, "--node-lease-duration-seconds=20", "the controller manager waits for simulated nodes no longer than for real ones")
}

func TestANodeThatWasReadyBeforeIsNotReadyYet(t *testing.T) {
	t.Parallel()
	started := time.Unix(1000, 0)
	for _, tc := range []struct {
		name       string
		conditions []corev1.NodeCondition
		want       bool
	}{
		{name: "no heartbeat was received"},
		{name: "its heartbeat is older", conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Unix(999, 0)}}},
		{name: "its heartbeat is from the same second", conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Unix(1000, 0)}}, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, heardSince(&corev1.Node{Status: corev1.NodeStatus{Conditions: tc.conditions}}, started))
		})
	}
}

func TestWhyRealNodesCannotRunIsOneLine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	want := "real nodes cannot run here: there is no ip (Debian: apt install iproute2 iptables util-linux)"
	if os.Geteuid() != 0 {
		want = "real nodes cannot run here: they need root"
	}
	require.EqualError(t, RealNodes(t.Context()), want)
	t.Setenv(cacheEnv, t.TempDir())
	_, err := Up(t.Context(), Config{Name: "east", Nodes: "real:1", StateRoot: t.TempDir()})
	require.EqualError(t, err, want, "before anything is built")
}
