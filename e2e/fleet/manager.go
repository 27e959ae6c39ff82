package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

var (
	// errPods means that there is no single process.
	errPods = errors.New("the manager runs in pods")
	// ErrNoProfile means that a manager serves no profiles.
	ErrNoProfile = errors.New("no profiles: start the fleet with Profiles")
)

// Manager is one of our managers: a process beside a cluster, or a Deployment in it.
type Manager struct {
	// Name is the name of the program, and of what is named after it: Lease, webhook configurations, Deployment.
	Name string

	cluster *Cluster
	runner  runner
}

// runner is how a manager runs.
type runner interface {
	// start starts the manager unless it is running. It doesn't wait until the manager is ready.
	start(ctx context.Context) error
	stop(ctx context.Context) error
	kill(ctx context.Context) error
	// ready returns what is missing, or "". It returns an error if waiting would not help.
	ready(ctx context.Context) (missing string, err error)
	// log returns the file of its log, or a pattern for several files.
	log() string
	// metrics returns the address of the replica that reconciles.
	metrics(ctx context.Context) (url string, err error)
}

// Cluster returns the name of the manager's cluster.
func (m *Manager) Cluster() string { return m.cluster.Name }

// Log returns the file of the manager's log. For a manager in pods, it is a pattern for the files of its replicas.
func (m *Manager) Log() string { return m.runner.log() }

// LogText returns everything that the manager has logged. For a manager in pods, it is what still exists on the nodes.
func (m *Manager) LogText() (string, error) {
	files, err := filepath.Glob(m.Log())
	if err != nil {
		return "", fmt.Errorf("find the log of %s: %w", m.Name, err)
	}
	var out []byte
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // It may have been deleted with its pod.
			return "", fmt.Errorf("read the log of %s: %w", m.Name, err)
		}
		out = append(out, text...)
	}
	return string(out), nil
}

// Process returns the manager's process. The error is os.ErrNotExist if it was stopped, and another one if the manager runs in pods.
func (m *Manager) Process() (*lab.Process, error) {
	p, ok := m.runner.(*process)
	if !ok {
		return nil, errPods
	}
	return p.find()
}

// Start starts the manager unless it is running, and waits until it is ready: its webhooks are served and trusted.
func (m *Manager) Start(ctx context.Context) error {
	if err := m.runner.start(ctx); err != nil {
		return err
	}
	return m.awaitReady(ctx)
}

// Stop terminates all replicas of the manager gracefully, and waits for that.
func (m *Manager) Stop(ctx context.Context) error { return m.runner.stop(ctx) }

// Kill kills all replicas of the manager, like a crash. In pods they are restarted by their nodes, and Start waits for that.
func (m *Manager) Kill(ctx context.Context) error { return m.runner.kill(ctx) }

func (m *Manager) awaitReady(ctx context.Context) error {
	var ended error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := Await(ctx, patience, func(ctx context.Context) (bool, string) {
		missing, err := m.runner.ready(ctx)
		if err != nil && ctx.Err() == nil {
			ended = err
			cancel()
		}
		return missing == "" && err == nil, missing
	})
	if ended != nil {
		err = ended
	}
	if err != nil {
		return fmt.Errorf("%s: %w; its log is %s", m.cluster.Name, err, m.Log())
	}
	return nil
}

// Metrics returns the manager's Prometheus metrics. With several replicas, these are the metrics of the one that reconciles.
func (m *Manager) Metrics(ctx context.Context) (string, error) {
	url, err := m.runner.metrics(ctx)
	if err != nil {
		return "", err
	}
	return get(ctx, url)
}

// Profile returns a profile of the manager, such as heap?gc=1 or profile?seconds=10. The error is ErrNoProfile for a fleet without
// Options.Profiles, and for a manager in pods.
func (m *Manager) Profile(ctx context.Context, name string) (string, error) {
	p, ok := m.runner.(*process)
	if !ok || p.profiles == 0 {
		return "", ErrNoProfile
	}
	return get(ctx, localURL("http", p.profiles)+"/debug/pprof/"+name)
}

// get returns the body of a response. Any code other than 200 is an error.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(body), err
}
