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

	// stopGrace is what a process gets to end by itself when its cluster is
	// taken down: enough for a manager to finish its requests.
	stopGrace = 5 * time.Second
	// componentGrace is for a component that starts again later, so that etcd
	// closes its files in order.
	componentGrace = 20 * time.Second
	// apiserverGrace lets kube-apiserver answer what it was asked. Left alone,
	// it holds its clients' watches for a minute more (as in kube 1.36: the
	// server's shutdown waits for them as long as --request-timeout).
	apiserverGrace = 2 * time.Second
)

// Cluster is a cluster of the lab. Its methods may be called concurrently;
// those that change it take a lock that other programs respect as well.
type Cluster struct {
	Name string
	// Dir is the folder of all that belongs to the cluster.
	Dir string
	// ServerURL is the address of kube-apiserver, the same for the cluster's
	// whole life.
	ServerURL string
	// Kubeconfig is the file of a user who may do everything.
	Kubeconfig string
	// CA is the certificate authority of servers and clients, as PEM.
	CA []byte
	// AuditLog is the file of the audit log; empty without one.
	AuditLog string
	// LogDir holds NAME.log for each process.
	LogDir string
	// Bin is where the cluster's programs are.
	Bin Bin

	config Config
	audit  *auditLog
	ports  map[string]int
	// network is that of the real nodes; 0 is none, and the cluster is on
	// loopback.
	network network
	nodeBin Bin
}

// record is what cluster.json keeps.
type record struct {
	Config Config         `json:"config"`
	Ports  map[string]int `json:"ports"`
	Bin    string         `json:"bin"`
	// Network and NodeBin belong to real nodes.
	Network network `json:"network,omitempty"`
	NodeBin string  `json:"nodeBin,omitempty"`
}

// Get returns the cluster of that name, whether its processes are alive or
// not. The error is ErrNotFound when there is none.
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

// List returns all clusters by name. Folders of clusters that never came to
// be, because their start was broken off at once, are left out.
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
			continue // Taken down since it was listed.
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Names lists what Down can take down: all clusters, and those that List leaves
// out but that have a network on this machine.
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

// Down ends everything of the cluster of that name and removes its folder. It
// works on any remains of a cluster; the error is ErrNotFound when there are
// none.
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

// Down does what the function Down does.
func (c *Cluster) Down(ctx context.Context) error { return down(ctx, c.Dir) }

// REST returns a configuration for clients of a user who may do everything. It
// has no rate limit.
func (c *Cluster) REST() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of cluster %s: %w", c.Name, err)
	}
	cfg.QPS = -1
	return cfg, nil
}

// Port returns the port that the cluster keeps for a purpose, such as the
// webhooks of a manager that runs beside it. It is chosen at the first call
// and stays the same until the cluster is taken down.
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

// Start starts one more process as part of the cluster: its record and log
// lie in the cluster's folder, and it ends with the cluster. Of the fields of
// cmd, Dir and Tied are set by Start.
func (c *Cluster) Start(cmd Command) (*Process, error) {
	cmd.Dir, cmd.Tied = c.Dir, c.config.Tied
	return StartProcess(cmd)
}

// Processes returns the cluster's processes by name, ours and others.
func (c *Cluster) Processes() ([]*Process, error) { return Processes(c.Dir) }

// LogFile is where the log of a process of the cluster is, whether it runs, has
// ended or was never started.
func (c *Cluster) LogFile(process string) string {
	if p, err := FindProcess(c.Dir, process); err == nil {
		return p.Log
	}
	return filepath.Join(c.LogDir, filepath.Base(process)+".log")
}

// Missing names the components and the real nodes that do not run, in the
// order of their start.
func (c *Cluster) Missing() []string {
	return slices.DeleteFunc(append(c.components(), c.RealNodes()...), func(name string) bool {
		p, err := FindProcess(c.Dir, name)
		return err == nil && p.Alive()
	})
}

// StopComponent stops a component and keeps its data and port; one that does
// not run is success. It takes about 2 s for kube-apiserver, which ends its
// watches last.
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

// StartComponent starts a component that was stopped or died, and waits for it
// where there is something to wait for: kube-apiserver is ready when this
// returns. One that runs is success.
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

// save makes the cluster known, or writes down its changes.
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

// host is the address of kube-apiserver: one that nodes reach if there are
// nodes that ask.
func (c *Cluster) host() string {
	if c.network > 0 {
		return c.network.controlPlane()
	}
	return "127.0.0.1"
}

// now is the time by the clock that the caller of Up gave.
func (c *Cluster) now() time.Time {
	if c.config.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return c.config.Clock.Now()
}

// takePorts chooses a port for each purpose.
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

// lockState locks a cluster's folder. The lock lies beside it, as the folder
// may be removed under the lock.
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
	if c, err := load(dir); err == nil { // Else it never got as far as to have any.
		if err := book.giveBack(slices.Collect(maps.Values(c.ports))...); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove cluster %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// endAll ends all processes of a folder: first those that are clients of the
// apiserver, so that they can shut down in order, then the apiserver and etcd.
// These two are killed: their data goes away anyway, and kube-apiserver would
// wait for its watches.
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
					errs[j] = p.Kill(ctx) // Its disk goes away too.
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
