package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// sharedEnv is the env variable with the folder of the cluster that the tests of all packages share. The first package that needs the cluster
// starts it there. Whoever set the variable removes the cluster. Without the variable, each package has its own cluster.
const sharedEnv = "FLOTILLA_SHARED_PLANES"

// Nodes is the number of simulated nodes in the shared cluster, in two zones.
const Nodes = 4

// shared is the cluster that the tests in this process share.
type shared struct {
	mu      sync.Mutex
	running bool
	cluster *lab.Cluster
	// own is the folder of a cluster that no other process shares.
	own string
}

var plane shared //nolint:gochecknoglobals // All tests of a process share it.

// Main runs the tests of a package that shares a cluster.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
func Main(m *testing.M) { run(m) } // m keeps the exit code.

// MainWithoutLeaks is Main for a package whose goroutines must end with its tests, except for those that the options ignore.
func MainWithoutLeaks(m *testing.M, ignore ...goleak.Option) {
	if run(m) != 0 {
		return
	}
	ignore = append(ignore, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		// The shared cluster outlives this process, which may have started it.
		goleak.IgnoreAnyFunction("github.com/flotilla-io/flotilla/testkit/lab.startAndReap.func1"))
	var err error
	for range 20 { // Half a second each: on a busy machine a stopped watch may still be decoding a large object.
		if err = goleak.Find(ignore...); err == nil {
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1) //nolint:forbidigo // Nothing runs any more, and m has no failure.
}

// run runs the tests, and takes the cluster down if only this package uses it.
func run(m *testing.M) int {
	plane.running = true
	code := m.Run()
	if err := plane.down(context.Background()); err != nil { //nolint:forbidigo // There is no test any more.
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// get returns the cluster. It has the CRDs of both charts.
func (p *shared) get(ctx context.Context) (*lab.Cluster, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cluster != nil {
		return p.cluster, nil
	}
	if !p.running {
		return nil, errors.New("TestMain has to call testenv.Main")
	}
	cfg := lab.Config{Name: "member", Nodes: fmt.Sprintf("kwok:%d", Nodes), Zones: 2, Audit: true, StateRoot: os.Getenv(sharedEnv)}
	if cfg.StateRoot == "" {
		dir, err := os.MkdirTemp("", "flotilla-plane-")
		if err != nil {
			return nil, err
		}
		p.own, cfg.StateRoot, cfg.Tied = dir, dir, true
	}
	c, err := lab.Shared(ctx, cfg, func(_ context.Context, c *lab.Cluster) error {
		cfg, err := c.REST()
		if err != nil {
			return err
		}
		return installCRDs(cfg)
	})
	if err != nil {
		return nil, err
	}
	p.cluster = c
	return c, closeConnections(c)
}

// closeConnections closes the connections that were used to prepare the cluster.
func closeConnections(c *lab.Cluster) error {
	cfg, err := c.REST()
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return err
	}
	utilnet.CloseIdleConnectionsFor(transport)
	return nil
}

func (p *shared) down(ctx context.Context) error {
	if p.own == "" {
		return nil
	}
	var err error
	if p.cluster != nil {
		err = p.cluster.Down(ctx)
	}
	return errors.Join(err, os.RemoveAll(p.own))
}

// installCRDs installs the CRDs of both charts.
func installCRDs(cfg *rest.Config) error {
	root, err := lab.Repository()
	if err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{
		Paths:              []string{filepath.Join(root, "charts", "hub", "files", "crds"), filepath.Join(root, "charts", "member", "files", "crds")},
		ErrorIfPathMissing: true, MaxTime: Long,
	})
	return err
}
