package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/flotilla-io/flotilla/pkg/testkit/lab"
)

// Ports that a cluster keeps for the manager beside it.
const (
	portWebhook = "webhook"
	portHealth  = "health"
	portMetrics = "metrics"
	portProfile = "profile"
)

// ErrNoProfile says that a manager serves no profiles.
var ErrNoProfile = errors.New("no profiles: bring the fleet up with Profiles")

const (
	// stopGrace is how long a manager may take to end when it is asked to.
	stopGrace = 20 * time.Second
	// logLines is how much of a log an error quotes.
	logLines = 12
)

// Manager is a manager of ours that runs beside a cluster.
type Manager struct {
	// Name is the program's.
	Name string

	cluster         *Cluster
	args            []string
	health, metrics int
	profile         int // 0 if it serves none
}

// Log is the file of the manager's log.
func (m *Manager) Log() string { return m.cluster.Lab.LogFile(m.Name) }

// Cluster is the name of the cluster that the manager runs beside.
func (m *Manager) Cluster() string { return m.cluster.Name }

// Process returns the manager's process; the error is os.ErrNotExist when it was stopped.
func (m *Manager) Process() (*lab.Process, error) { return lab.FindProcess(m.cluster.Lab.Dir, m.Name) }

// Start starts the manager and waits until it is ready: its webhooks are served and trusted. One that runs is success.
func (m *Manager) Start(ctx context.Context) error {
	_, err := m.cluster.Lab.Start(lab.Command{Name: m.Name, Args: m.args})
	if err != nil && !errors.Is(err, lab.ErrRunning) {
		return err
	}
	return m.awaitReady(ctx)
}

// Stop asks the manager to end, and waits for it.
func (m *Manager) Stop(ctx context.Context) error {
	return m.end(func(p *lab.Process) error { return p.Stop(ctx, stopGrace) })
}

// Kill ends the manager at once, as a crash does.
func (m *Manager) Kill(ctx context.Context) error {
	return m.end(func(p *lab.Process) error { return p.Kill(ctx) })
}

func (m *Manager) end(how func(*lab.Process) error) error {
	p, err := m.Process()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return how(p)
}

// ensure is Start, but ends one that runs with other flags or from an older program first.
func (m *Manager) ensure(ctx context.Context) error {
	p, err := m.Process()
	if err == nil && p.Alive() && (!slices.Equal(p.Args, m.args) || !m.current(p)) {
		if err := m.Stop(ctx); err != nil {
			return err
		}
	}
	return m.Start(ctx)
}

// current says whether a process runs the program that is in bin now: building it anew replaces the file.
func (m *Manager) current(p *lab.Process) bool {
	running, err := os.Stat(fmt.Sprintf("/proc/%d/exe", p.PID))
	if err != nil {
		return false
	}
	built, err := os.Stat(m.args[0])
	return err == nil && os.SameFile(running, built)
}

func (m *Manager) awaitReady(ctx context.Context) error {
	var ended error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := Await(ctx, patience, func(ctx context.Context) (bool, string) {
		body, err := get(ctx, localURL("http", m.health)+"/readyz?verbose")
		if err == nil {
			return true, ""
		}
		if p, found := m.Process(); found != nil || !p.Alive() {
			ended = fmt.Errorf("%s ended while it started", m.Name)
			cancel()
		}
		return false, fmt.Sprintf("%s is not ready: %v %s", m.Name, err, body)
	})
	if ended != nil {
		err = ended
	}
	if err == nil {
		return nil
	}
	tail := ""
	if p, found := m.Process(); found == nil {
		tail = p.LogTail(logLines)
	}
	return fmt.Errorf("%s: %w; its log %s ends with:\n%s", m.cluster.Name, err, m.Log(), tail)
}

// Metrics returns what the manager exposes to Prometheus.
func (m *Manager) Metrics(ctx context.Context) (string, error) {
	return get(ctx, localURL("http", m.metrics)+"/metrics")
}

// Profile returns a profile of the manager, such as heap?gc=1 or profile?seconds=10. The error is ErrNoProfile for a fleet
// without Options.Profiles.
func (m *Manager) Profile(ctx context.Context, name string) (string, error) {
	if m.profile == 0 {
		return "", ErrNoProfile
	}
	return get(ctx, localURL("http", m.profile)+"/debug/pprof/"+name)
}

// get returns the body of an answer with code 200, and of others with an error.
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

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func localURL(scheme string, port int) string { return scheme + "://" + localAddress(port) }
