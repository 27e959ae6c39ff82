package lab

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The programs that make up a cluster, by the names that StopComponent and StartComponent accept.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Simulator         = "kwok"
	// DNS resolves the names of Services. Only clusters with real nodes have it.
	DNS = "labdns"
)

const (
	adminKubeconfig             = "kubeconfig"
	controllerManagerKubeconfig = "kube-controller-manager.kubeconfig"
	schedulerKubeconfig         = "kube-scheduler.kubeconfig"
	simulatorKubeconfig         = "kwok.kubeconfig"
	dnsKubeconfig               = "labdns.kubeconfig"
	auditFile                   = "audit.log"

	// All clusters use the same networks, because no traffic leaves them.
	serviceNetwork = "10.32.0.0/16"
	serviceIP      = "10.32.0.1"
	podNetwork     = "10.64.0.0/10"

	// leaseSeconds is the duration of a simulated node's Lease. kwok renews it after a quarter, 30 s, which is within the 50 s after which the
	// controller manager considers a node lost.
	leaseSeconds = 120
)

//go:embed audit.yaml
var auditPolicy []byte

//go:embed stages.yaml
var stages []byte

// writeFiles writes what the programs read besides certificates. It runs at each start, so that a cluster made by an older version gets the
// new files.
func (c *Cluster) writeFiles() error {
	for name, data := range map[string][]byte{"audit.yaml": auditPolicy, "stages.yaml": stages} {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// components lists the cluster's programs in start order.
func (c *Cluster) components() []string {
	if c.config.ControlPlaneOnly {
		return []string{Etcd, APIServer}
	}
	all := []string{Etcd, APIServer, ControllerManager, Scheduler, Simulator}
	if c.network > 0 {
		all = append(all, DNS)
	}
	return all
}

// args returns the command line of a component.
func (c *Cluster) args(component string) ([]string, error) {
	var flags []string
	switch component {
	case Etcd:
		flags = c.etcdFlags()
	case APIServer:
		flags = c.apiserverFlags()
	case ControllerManager:
		flags = c.controllerManagerFlags()
	case Scheduler:
		flags = append([]string{
			"--kubeconfig=" + c.path(schedulerKubeconfig),
			"--secure-port=0", "--leader-elect=false", "--profiling=false",
			"--kube-api-qps=200", "--kube-api-burst=400",
		}, c.gateFlags()...)
	case Simulator:
		flags = []string{
			"--kubeconfig=" + c.path(simulatorKubeconfig),
			"--config=" + c.path("stages.yaml"),
			"--manage-nodes-with-label-selector=" + simulatedLabel + "=true",
			"--node-lease-duration-seconds=" + strconv.Itoa(c.leaseSeconds()),
			"--cidr=" + podNetwork,
		}
	case DNS:
		flags = []string{"--kubeconfig=" + c.path(dnsKubeconfig), "--listen=" + c.host() + ":53"}
	}
	if flags == nil || !slices.Contains(c.components(), component) {
		return nil, fmt.Errorf("cluster %s has no component %q, only %q", c.Name, component, c.components())
	}
	bin := c.Bin
	if component == DNS {
		bin = c.nodeBin
	}
	return append([]string{bin.Path(component)}, flags...), nil
}

// leaseSeconds returns the duration of a simulated node's Lease. If there are real nodes too, the controller manager waits less long for
// both.
func (c *Cluster) leaseSeconds() int {
	if c.network > 0 {
		return realLeaseSeconds
	}
	return leaseSeconds
}

// etcdFlags returns the flags of etcd. Without fsync a crash of the machine may lose data, but a crash of etcd does not. The peer port is a
// free one each time, since there are no peers.
func (c *Cluster) etcdFlags() []string {
	url := c.etcdURL()
	return []string{
		"--name=" + c.Name, "--data-dir=" + c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=http://127.0.0.1:0",
	}
}

func (c *Cluster) apiserverFlags() []string {
	flags := []string{
		"--etcd-servers=" + c.etcdURL(),
		"--bind-address=" + c.host(), "--secure-port=" + strconv.Itoa(c.ports[portAPIServer]),
		"--tls-cert-file=" + c.path("pki", "apiserver.crt"),
		"--tls-private-key-file=" + c.path("pki", "apiserver.key"),
		"--client-ca-file=" + c.path("pki", "ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("pki", "token.crt"),
		"--service-account-signing-key-file=" + c.path("pki", "token.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true", "--service-cluster-ip-range=" + serviceNetwork,
	}
	if c.network > 0 {
		flags = append(flags,
			"--advertise-address="+c.host(),
			"--kubelet-client-certificate="+c.path("pki", kubeletClient+".crt"),
			"--kubelet-client-key="+c.path("pki", kubeletClient+".key"),
			"--kubelet-preferred-address-types=InternalIP",
			// Call webhooks at their pod IPs: nothing here serves ClusterIPs.
			"--enable-aggregator-routing=true")
	} else {
		// A loopback address must not be an endpoint of the kubernetes Service.
		flags = append(flags, "--endpoint-reconciler-type=none")
	}
	if c.config.ControlPlaneOnly {
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	if c.config.Audit {
		flags = append(flags,
			"--audit-policy-file="+c.path("audit.yaml"), "--audit-log-path="+c.AuditLog,
			// Keep one file: after a rotation, requests would be missing from the counts.
			"--audit-log-maxsize=100000")
	}
	flags = append(flags, c.gateFlags()...)
	return append(flags, c.config.APIServerArgs...)
}

func (c *Cluster) controllerManagerFlags() []string {
	flags := []string{
		"--kubeconfig=" + c.path(controllerManagerKubeconfig),
		"--secure-port=0", "--leader-elect=false", "--profiling=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.path("pki", "token.key"),
		"--root-ca-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-cert-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-key-file=" + c.path("pki", "ca.key"),
		"--cluster-name=" + c.Name,
		// The controller manager creates this folder. The default is a folder of the machine.
		"--flex-volume-plugin-dir=" + c.path("volume-plugins"),
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
	if c.network > 0 {
		// A node is lost when its Lease expires, instead of after the default 50 s.
		flags = append(flags, "--node-monitor-period=1s", "--node-monitor-grace-period="+strconv.Itoa(realLeaseSeconds)+"s")
	}
	return append(flags, c.gateFlags()...)
}

// gateFlags returns the flags for feature gates. Nil means Kubernetes' defaults.
func (c *Cluster) gateFlags() []string {
	if len(c.config.FeatureGates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(c.config.FeatureGates, ",")}
}

func (c *Cluster) etcdURL() string {
	return "http://127.0.0.1:" + strconv.Itoa(c.ports[portEtcd])
}
