package lab

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The programs that make a cluster, by the names that StopComponent and
// StartComponent know.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Simulator         = "kwok"
	// DNS serves the names of Services; only clusters with real nodes have it.
	DNS = "labdns"
)

const (
	adminKubeconfig             = "kubeconfig"
	controllerManagerKubeconfig = "kube-controller-manager.kubeconfig"
	schedulerKubeconfig         = "kube-scheduler.kubeconfig"
	simulatorKubeconfig         = "kwok.kubeconfig"
	dnsKubeconfig               = "labdns.kubeconfig"
	auditFile                   = "audit.log"

	// All clusters use the same networks, as none of them leads anywhere.
	serviceNetwork = "10.32.0.0/16"
	serviceIP      = "10.32.0.1"
	podNetwork     = "10.64.0.0/10"

	// leaseSeconds is how long a simulated node's Lease lasts; kwok renews it
	// after a quarter, 30 s, within the 50 s after which the controller manager
	// calls a node lost.
	leaseSeconds = 120
)

//go:embed audit.yaml
var auditPolicy []byte

//go:embed stages.yaml
var stages []byte

// files are what the programs read, beside certificates. They are written at
// each start, so that a cluster made by an older version gets the new ones.
func (c *Cluster) writeFiles() error {
	for name, data := range map[string][]byte{"audit.yaml": auditPolicy, "stages.yaml": stages} {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// components lists the cluster's programs in the order of their start.
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

// args is a component's command line.
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

// leaseSeconds is how long a simulated node's Lease lasts: with real nodes
// beside it, the controller manager waits less long for both.
func (c *Cluster) leaseSeconds() int {
	if c.network > 0 {
		return realLeaseSeconds
	}
	return leaseSeconds
}

// etcdFlags: without fsync a crash of the machine may lose data, a crash of
// etcd does not. The peer port is free each time, as no peer ever asks.
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
			// Webhooks are called at their pods: nobody here serves ClusterIPs.
			"--enable-aggregator-routing=true")
	} else {
		// A loopback address may not be an endpoint of the kubernetes Service.
		flags = append(flags, "--endpoint-reconciler-type=none")
	}
	if c.config.ControlPlaneOnly {
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	if c.config.Audit {
		flags = append(flags,
			"--audit-policy-file="+c.path("audit.yaml"), "--audit-log-path="+c.AuditLog,
			// One file, or counting would miss what was rotated away.
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
		// It makes the folder, by default one of the machine's.
		"--flex-volume-plugin-dir=" + c.path("volume-plugins"),
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
	if c.network > 0 {
		// A node is lost when its Lease is, rather than after the usual 50 s.
		flags = append(flags, "--node-monitor-period=1s", "--node-monitor-grace-period="+strconv.Itoa(realLeaseSeconds)+"s")
	}
	return append(flags, c.gateFlags()...)
}

// gateFlags are the flags for feature gates; nil leaves Kubernetes' defaults.
func (c *Cluster) gateFlags() []string {
	if len(c.config.FeatureGates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(c.config.FeatureGates, ",")}
}

func (c *Cluster) etcdURL() string {
	return "http://127.0.0.1:" + strconv.Itoa(c.ports[portEtcd])
}
