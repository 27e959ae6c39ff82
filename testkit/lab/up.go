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
	// readyWait is long for the sake of busy machines.
	readyWait = 2 * time.Minute
	// logLines is how many lines of a log an error quotes.
	logLines = 8
)

// Up brings a cluster up, and returns when it works: kube-apiserver is ready, the default namespace has its ServiceAccount, and the nodes are
// Ready.
//
// If a cluster with that name exists, Up restores that state: it starts components that don't run, on the same ports and with the same
// certificates and data, and adds missing nodes. It never removes nodes. It is an error if cfg differs from the cluster in anything but its
// nodes.
//
// If Up fails or ctx ends, what was started stays, with its logs. Another Up continues from there, and Down removes it.
func Up(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cfg.StateRoot, cfg.Name)
	old, err := load(dir)
	real := cfg.real() || err == nil && old.network > 0
	if real {
		err := RealNodes(ctx) // Check this before minutes of building.
		if err != nil {
			return nil, err
		}
		if err := checkNodeFolder(cfg.StateRoot); err != nil {
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

// StartT brings up a cluster for one test, with a random name and in the test's temporary folder, and takes it down when the test ends. If
// the test's process is killed, so is the cluster. cfg.Name may be empty. If StartT fails, it ends the test. The logs of a failed test are
// added to its output.
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

// LogFailure adds the end of the cluster's logs to the output of a failed test.
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

// open reads the cluster, or creates a new one up to the point where its programs can be started.
func open(ctx context.Context, dir string, cfg Config, bin, nodeBin Bin) (*Cluster, error) {
	c, err := load(dir)
	if err == nil {
		if !c.config.sameCluster(cfg) {
			return nil, fmt.Errorf("cluster %s exists with other settings; take it down first", cfg.Name)
		}
		c.Bin, c.nodeBin, c.config.Tied = bin, nodeBin, cfg.Tied
		if c.network > 0 {
			if _, err := thisMachine().enter(ctx, dir, c.network, cfg.Tied); err != nil {
				return nil, err // Its network may have been lost in a reboot.
			}
		}
		return c, c.save()
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	// The folder of an interrupted start contains nothing of value.
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

// startComponent starts a component unless it is running, and waits for it.
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

// awaitControllers waits for the first results of the controller manager: the ServiceAccount without which no pod can be created, and the CA
// certificate beside it.
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

// await polls until done. It gives up early if one of the needed components ends, and then quotes its log.
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
				return false, p.lastOutput()
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
