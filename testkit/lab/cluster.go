package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
)

// ErrNotFound is returned for a cluster that does not exist.
var ErrNotFound = errors.New("no such cluster")

const (
	clusterFile = "cluster.json"

	portEtcd      = "etcd"
	portAPIServer = "kube-apiserver"

	// stopGrace is how long a process may take to shut down when its cluster is taken down: enough for a manager to finish its requests.
	stopGrace = 5 * time.Second
	// componentGrace is for a component that is started again later, so that etcd closes its files properly.
	componentGrace = 20 * time.Second
	// apiserverGrace lets kube-apiserver answer pending requests. By default it would keep its clients' watches open for another minute (as in
	// kube 1.36, whose shutdown waits for watches as long as --request-timeout).
	apiserverGrace = 2 * time.Second
)

// Cluster is a lab cluster. Its methods are safe for concurrent use. Those that change the cluster take a lock that other programs respect
// too.
type Cluster struct {
	Name string
	// Dir is the folder with everything that belongs to the cluster.
	Dir string
	// ServerURL is the address of kube-apiserver. It never changes.
	ServerURL string
	// Kubeconfig is the kubeconfig file of a cluster admin.
	Kubeconfig string
	// CA is the certificate authority for servers and clients, as PEM.
	CA []byte
	// AuditLog is the file of the audit log, or "" if there is none.
	AuditLog string
	// LogDir holds NAME.log for each process.
	LogDir string
	// Bin is the folder of the cluster's programs.
	Bin Bin

	config Config
	audit  *auditLog
	ports  map[string]int
	// network is the network of the real nodes. 0 means that there are none, and the cluster is on loopback.
	network network
	nodeBin Bin
}

// record is the content of cluster.json.
type record struct {
	Config Config         `json:"config"`
	Ports  map[string]int `json:"ports"`
	Bin    string         `json:"bin"`
	// Network and NodeBin are for real nodes.
	Network network `json:"network,omitempty"`
	NodeBin string  `json:"nodeBin,omitempty"`
}

// Get returns the cluster with that name, whether or not its processes run. If there is none, the error is ErrNotFound.
func Get(name string) (*Cluster, error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	return load(filepath.Join(root, name))
}

// List returns all clusters, sorted by name. It leaves out folders of clusters whose creation was interrupted right at the start.
func List() ([]*Cluster, error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "*", clusterFile))
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	slices.Sort(files)
	out := make([]*Cluster, 0, len(files))
	for _, f := range files {
		c, err := load(filepath.Dir(f))
		if errors.Is(err, ErrNotFound) {
			continue // It was taken down since it was listed.
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Names lists what Down can take down: all clusters, and those that List leaves out but that have a network on this machine.
func Names(ctx context.Context) ([]string, error) {
	clusters, err := List()
	if err != nil {
		return nil, err
	}
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	names, err := thisMachine().names(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Down stops everything that belongs to the cluster with that name, and removes its folder. It works on partial clusters too. If nothing is
// left of the cluster, the error is ErrNotFound.
func Down(ctx context.Context, name string) error {
	root, err := stateRoot()
	if err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	return down(ctx, filepath.Join(root, name))
}

// Down is like the function Down, for this cluster.
func (c *Cluster) Down(ctx context.Context) error { return down(ctx, c.Dir) }

// REST returns a client configuration for a cluster admin, without rate limit.
func (c *Cluster) REST() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of cluster %s: %w", c.Name, err)
	}
	cfg.QPS = -1
	return cfg, nil
}

// Port returns the port that the cluster reserves for a purpose, such as the webhooks of a manager that runs beside it. It is chosen on the
// first call, and stays the same until the cluster is taken down.
func (c *Cluster) Port(ctx context.Context, purpose string) (int, error) {
	unlock, err := lockState(ctx, c.Dir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	now, err := load(c.Dir) // Another program may have chosen one meanwhile.
	if err != nil {
		return 0, err
	}
	if p, ok := now.ports[purpose]; ok {
		return p, nil
	}
	if err := now.takePorts(ctx, purpose); err != nil {
		return 0, err
	}
	return now.ports[purpose], now.save()
}

// Start starts a process as part of the cluster: its record and log are in the cluster's folder, and it ends with the cluster. Start sets the
// fields Dir and Tied of cmd.
func (c *Cluster) Start(cmd Command) (*Process, error) {
	cmd.Dir, cmd.Tied = c.Dir, c.config.Tied
	return StartProcess(cmd)
}

// Processes returns the cluster's processes by name, including those started with Start.
func (c *Cluster) Processes() ([]*Process, error) { return Processes(c.Dir) }

// LogFile returns the log file of a process of the cluster, whether it runs, has ended or was never started.
func (c *Cluster) LogFile(process string) string {
	if p, err := FindProcess(c.Dir, process); err == nil {
		return p.Log
	}
	return filepath.Join(c.LogDir, filepath.Base(process)+".log")
}

// Missing returns the names of the components and real nodes that don't run, in start order.
func (c *Cluster) Missing() []string {
	return slices.DeleteFunc(append(c.components(), c.RealNodes()...), func(name string) bool {
		p, err := FindProcess(c.Dir, name)
		return err == nil && p.Alive()
	})
}

// StopComponent stops a component, and keeps its data and port. It succeeds if the component isn't running. It takes about 2 s for
// kube-apiserver, which closes its watches last.
func (c *Cluster) StopComponent(ctx context.Context, name string) error {
	if _, err := c.args(name); err != nil {
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
	if name == APIServer {
		return p.Stop(ctx, apiserverGrace)
	}
	return p.Stop(ctx, componentGrace)
}

// StartComponent starts a component that was stopped or has died, and waits until it is usable: kube-apiserver is ready when StartComponent
// returns. It succeeds if the component is running already.
func (c *Cluster) StartComponent(ctx context.Context, name string) error {
	unlock, err := lockState(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	return c.startComponent(ctx, name)
}

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

// save records the cluster and its changes.
func (c *Cluster) save() error {
	return writeJSON(c.path(clusterFile), record{
		Config: c.config, Ports: c.ports, Bin: c.Bin.Dir, Network: c.network, NodeBin: c.nodeBin.Dir,
	})
}

// load reads a cluster from its folder.
func load(dir string) (*Cluster, error) {
	data, err := os.ReadFile(filepath.Join(dir, clusterFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cluster %s: %w", filepath.Base(dir), ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", filepath.Base(dir), err)
	}
	c := newCluster(dir, r.Config, Bin{Dir: r.Bin})
	c.network, c.nodeBin = r.Network, Bin{Dir: r.NodeBin}
	c.usePorts(r.Ports)
	if c.CA, err = os.ReadFile(c.path("pki", "ca.crt")); err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", c.Name, err)
	}
	return c, nil
}

func newCluster(dir string, cfg Config, bin Bin) *Cluster {
	c := &Cluster{Name: cfg.Name, Dir: dir, Bin: bin, config: cfg, ports: map[string]int{}}
	c.Kubeconfig = c.path(adminKubeconfig)
	c.LogDir = c.path(logFolder)
	if cfg.Audit {
		c.AuditLog = c.path(auditFile)
		c.audit = &auditLog{file: c.AuditLog}
	}
	return c
}

func (c *Cluster) usePorts(ports map[string]int) {
	c.ports = ports
	c.ServerURL = "https://" + c.host() + ":" + strconv.Itoa(ports[portAPIServer])
}

// host returns the address of kube-apiserver. Real nodes can reach it if there are any.
func (c *Cluster) host() string {
	if c.network > 0 {
		return c.network.controlPlane()
	}
	return "127.0.0.1"
}

// now returns the time according to the clock that was passed to Up.
func (c *Cluster) now() time.Time {
	if c.config.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return c.config.Clock.Now()
}

// takePorts reserves a port for each purpose.
func (c *Cluster) takePorts(ctx context.Context, purposes ...string) error {
	book, err := openPortBook()
	if err != nil {
		return err
	}
	ports, err := book.take(ctx, c.Dir, len(purposes))
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	for i, p := range purposes {
		c.ports[p] = ports[i]
	}
	c.usePorts(c.ports)
	return nil
}

// lockState locks a cluster's folder. The lock file is next to the folder, because the folder may be removed while locked.
func lockState(ctx context.Context, dir string) (unlock func(), err error) {
	return lock(ctx, filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".lock"))
}

func down(ctx context.Context, dir string) error {
	if !exists(dir) {
		return fmt.Errorf("cluster %s: %w", filepath.Base(dir), ErrNotFound)
	}
	unlock, err := lockState(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := endAll(ctx, dir); err != nil {
		return err
	}
	if err := thisMachine().leave(ctx, dir); err != nil {
		return err
	}
	book, err := openPortBook()
	if err != nil {
		return err
	}
	if c, err := load(dir); err == nil { // Otherwise it never got far enough to have any.
		if err := book.release(slices.Collect(maps.Values(c.ports))...); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove cluster %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// endAll ends all processes of a folder. It first ends the clients of the apiserver, so that they can shut down properly, then the apiserver
// and etcd. These two are killed: their data is deleted anyway, and kube-apiserver would wait for its watches.
func endAll(ctx context.Context, dir string) error {
	all, err := Processes(dir)
	if err != nil {
		return err
	}
	waves := [][]*Process{nil, nil}
	for _, p := range all {
		wave := 0
		if p.Name == APIServer || p.Name == Etcd {
			wave = 1
		}
		waves[wave] = append(waves[wave], p)
	}
	for i, grace := range []time.Duration{stopGrace, 0} {
		errs := make([]error, len(waves[i]))
		var wg sync.WaitGroup
		for j, p := range waves[i] {
			wg.Go(func() {
				if _, err := nodeNumber(p.Name); err == nil {
					errs[j] = p.Kill(ctx) // Its disk is deleted too.
					return
				}
				errs[j] = p.Stop(ctx, grace)
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes a kubeconfig with one cluster and one user.
func writeKubeconfig(file, cluster, server string, ca []byte, client pair) error {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	cfg.AuthInfos[cluster] = &clientcmdapi.AuthInfo{ClientCertificateData: client.cert, ClientKeyData: client.key}
	cfg.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: cluster}
	cfg.CurrentContext = cluster
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	return nil
}
