package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

const (
	readyPoll = 100 * time.Millisecond
	// readyWait is long for the sake of machines that do much else.
	readyWait = 2 * time.Minute
	// logLines is how much of a log an error quotes.
	logLines = 8
)

// Up brings a cluster up and returns when it works: kube-apiserver is ready,
// the default namespace has its ServiceAccount, the nodes are Ready.
//
// A cluster of that name that exists is brought back to that state: its
// components that do not run are started, on the same ports, with the same
// certificates and data, and missing nodes are added. Nodes are never removed.
// A cfg that differs from the cluster's in anything but its nodes is an error.
//
// When Up fails or ctx ends, what has been started stays, with its logs; Up
// goes on from there, and Down removes it.
func Up(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cfg.StateRoot, cfg.Name)
	old, err := load(dir)
	real := cfg.real() || err == nil && old.network > 0
	if real {
		err := RealNodes(ctx) // Before minutes of building.
		if err != nil {
			return nil, err
		}
		if err := holdsNodes(cfg.StateRoot); err != nil {
			return nil, fmt.Errorf("%w: %w", errReal, err)
		}
	}
	bin := cfg.Bin
	if bin == (Bin{}) {
		if bin, err = Binaries(ctx, cfg.Progress); err != nil {
			return nil, err
		}
	}
	var nodeBin Bin
	if real {
		if nodeBin, err = NodeBinaries(ctx, cfg.Progress); err != nil {
			return nil, err
		}
	}
	unlock, err := lockState(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()

	c, err := open(ctx, dir, cfg, bin, nodeBin)
	if err != nil {
		return nil, err
	}
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	progress := cfg.Progress.prefix(c.Name)
	for _, name := range c.components() {
		err := progress.run(name, func() error { return c.startComponent(ctx, name) })
		if err != nil {
			return nil, err
		}
	}
	if cfg.ControlPlaneOnly {
		return c, nil
	}
	n, err := ParseNodes(cfg.Nodes)
	if err != nil {
		return nil, err
	}
	var (
		wg     sync.WaitGroup
		failed error
	)
	if c.network > 0 {
		wg.Go(func() {
			failed = progress.run("nodes", func() error { return c.ensureRealNodes(ctx, n.Real) })
		})
	}
	err = progress.run("controllers", func() error { return c.awaitControllers(ctx) })
	if err == nil && n.Simulated > 0 {
		err = progress.run(fmt.Sprintf("%d simulated nodes", n.Simulated), func() error { return c.ensureNodes(ctx, n.Simulated) })
	}
	wg.Wait()
	return c, errors.Join(err, failed)
}

// StartT brings a cluster up for one test, under a random name and in the
// test's temporary folder, and takes it down when the test ends. If the test's
// process is killed, so is the cluster. cfg may leave Name empty; failure ends
// the test, and the logs of a test that failed are kept in its output.
func StartT(tb testing.TB, cfg Config) *Cluster {
	tb.Helper()
	if cfg.Name == "" {
		cfg.Name = "t-" + strings.ToLower(rand.Text()[:8])
	}
	cfg.StateRoot, cfg.Tied = tb.TempDir(), true
	dir := filepath.Join(cfg.StateRoot, cfg.Name)
	tb.Cleanup(func() {
		logFailure(tb, dir)
		// The test's own context has ended by now.
		err := down(context.WithoutCancel(tb.Context()), dir)
		if err != nil && !errors.Is(err, ErrNotFound) {
			tb.Errorf("take down: %v", err)
		}
	})
	c, err := Up(tb.Context(), cfg)
	if err != nil {
		tb.Fatalf("bring up a cluster: %v", err)
	}
	return c
}

// LogFailure puts the ends of the cluster's logs into the output of a test that failed.
func (c *Cluster) LogFailure(tb testing.TB) {
	tb.Helper()
	logFailure(tb, c.Dir)
}

func logFailure(tb testing.TB, dir string) {
	tb.Helper()
	if !tb.Failed() {
		return
	}
	processes, err := Processes(dir)
	if err != nil {
		tb.Logf("no logs: %v", err)
	}
	for _, p := range processes {
		tb.Logf("end of the log of %s (alive: %t):\n%s", p.Name, p.Alive(), p.LogTail(logLines))
	}
}

// open reads the cluster, or makes a new one up to the point where its
// programs can be started.
func open(ctx context.Context, dir string, cfg Config, bin, nodeBin Bin) (*Cluster, error) {
	c, err := load(dir)
	if err == nil {
		if !c.config.sameCluster(cfg) {
			return nil, fmt.Errorf("cluster %s exists with other settings; take it down first", cfg.Name)
		}
		c.Bin, c.nodeBin, c.config.Tied = bin, nodeBin, cfg.Tied
		if c.network > 0 {
			if _, err := thisMachine().enter(ctx, dir, c.network, cfg.Tied); err != nil {
				return nil, err // Its network may have gone with a reboot.
			}
		}
		return c, c.save()
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	// The folder of a start that was broken off holds nothing of worth.
	if err := errors.Join(endAll(ctx, dir), thisMachine().leave(ctx, dir)); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("make cluster %s: %w", cfg.Name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make cluster %s: %w", cfg.Name, err)
	}
	c = newCluster(dir, cfg, bin)
	c.nodeBin = nodeBin
	if cfg.real() {
		if c.network, err = thisMachine().enter(ctx, dir, 0, cfg.Tied); err != nil {
			return nil, err
		}
	}
	if err := c.takePorts(ctx, portEtcd, portAPIServer); err != nil {
		return nil, err
	}
	if err := writePKI(c, cfg.Clock.Now()); err != nil {
		return nil, err
	}
	if err := c.save(); err != nil { // From here on the cluster exists.
		return nil, err
	}
	if c, err = load(dir); err != nil {
		return nil, err
	}
	c.config.Tied = cfg.Tied
	return c, nil
}

// startComponent starts a component unless it runs, and waits for it.
func (c *Cluster) startComponent(ctx context.Context, name string) error {
	args, err := c.args(name)
	if err != nil {
		return err
	}
	if name == Simulator {
		if err := c.dropLeases(ctx); err != nil {
			return err
		}
	}
	if _, err := c.Start(Command{Name: name, Args: args}); err != nil && !errors.Is(err, ErrRunning) {
		return err
	}
	if name == APIServer {
		return c.awaitAPIServer(ctx)
	}
	return nil
}

func (c *Cluster) awaitAPIServer(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return c.await(ctx, []string{Etcd, APIServer}, "kube-apiserver to be ready", func(ctx context.Context) (bool, error) {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
}

// awaitControllers waits for the first fruits of the controller manager: the
// account without which no pod can be made, and the authority that it puts
// beside it.
func (c *Cluster) awaitControllers(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return c.await(ctx, c.components(), "the ServiceAccount of the default namespace", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		}
		return err == nil, nil
	})
}

// await polls until done. It gives up early when one of the needed components
// ends, and says what its log says.
func (c *Cluster) await(ctx context.Context, needed []string, what string, done wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, readyPoll, testtimeout.Scale(readyWait), true, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		if ok || err != nil {
			return ok, err
		}
		for _, name := range needed {
			p, err := FindProcess(c.Dir, name)
			if err != nil {
				return false, err
			}
			if !p.Alive() {
				return false, p.lastWords()
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("cluster %s: wait for %s (logs in %s): %w", c.Name, what, c.LogDir, err)
	}
	return nil
}

func (c *Cluster) client() (kubernetes.Interface, error) {
	cfg, err := c.REST()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client of cluster %s: %w", c.Name, err)
	}
	return client, nil
}
