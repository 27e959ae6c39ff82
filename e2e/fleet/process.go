package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// Ports that a cluster reserves for the manager beside it.
const (
	portWebhook = "webhook"
	portHealth  = "health"
	portMetrics = "metrics"
	portProfile = "profile"
)

const (
	// stopGrace is how long a manager may take to terminate.
	stopGrace = 20 * time.Second
	// logLines is how much of a log an error quotes.
	logLines = 12
)

// QuickLeader returns flags for every manager here, unless Options.PatientLeader is set: the Lease of a killed manager has to expire before
// the next one leads.
func QuickLeader() []string {
	return []string{
		"--leader-election-lease-duration=10s", "--leader-election-renew-deadline=8s", "--leader-election-retry-period=1s",
	}
}

// process is a manager that runs beside its cluster.
type process struct {
	name     string
	cluster  *Cluster
	args     []string
	health   int
	exporter int
	profiles int // 0 if it serves none.
}

// run ensures that a cluster's manager runs beside it, with the current program and flags.
func (f *Fleet) run(ctx context.Context, c *Cluster, program string, flags ...string) error {
	kubeconfig, err := c.accountKubeconfig(ctx, program)
	if err != nil {
		return err
	}
	ports := map[string]int{}
	purposes := []string{portWebhook, portHealth, portMetrics}
	if f.options.Profiles {
		purposes = append(purposes, portProfile)
	}
	for _, purpose := range purposes {
		if ports[purpose], err = c.Lab.Port(ctx, purpose); err != nil {
			return err
		}
	}
	if port := ports[portProfile]; port != 0 {
		flags = append(flags, "--pprof-addr="+localAddress(port))
	}
	if program == "flotilla-member" {
		flags = append(flags, f.options.MemberFlags...)
		if gates := f.options.MemberGates; len(gates) > 0 {
			flags = append(flags, "--feature-gates="+strings.Join(gates, ","))
		}
	} else {
		flags = append(flags, "--cluster-profile-namespace="+fleetv1alpha1.SystemNamespace) // The chart's default.
		flags = append(flags, f.options.HubFlags...)
	}
	p := &process{name: program, cluster: c, health: ports[portHealth], exporter: ports[portMetrics], profiles: ports[portProfile]}
	p.args = slices.Concat([]string{
		filepath.Join(f.Root, "bin", program),
		"--kubeconfig=" + kubeconfig,
		"--namespace=" + Namespace,
		"--webhook-url=" + localURL("https", ports[portWebhook]),
		"--health-probe-addr=" + localAddress(ports[portHealth]),
		"--metrics-addr=" + localAddress(ports[portMetrics]),
		"--v=1",
	}, f.options.leader(), flags)
	c.Manager = &Manager{Name: program, cluster: c, runner: p}
	if err := p.stopOutdated(ctx); err != nil {
		return err
	}
	return c.Manager.Start(ctx)
}

func (p *process) log() string { return p.cluster.Lab.LogFile(p.name) }

func (p *process) find() (*lab.Process, error) { return lab.FindProcess(p.cluster.Lab.Dir, p.name) }

// start releases the Lease if the previous process didn't do so, because it was killed or lost its apiserver. No other process with that name
// runs, so the new one doesn't have to wait until the Lease has expired.
func (p *process) start(ctx context.Context) error {
	if it, err := p.find(); err != nil || !it.Alive() {
		if err := p.cluster.releaseLease(ctx, p.name); err != nil {
			return err
		}
	}
	_, err := p.cluster.Lab.Start(lab.Command{Name: p.name, Args: p.args})
	if errors.Is(err, lab.ErrRunning) {
		return nil
	}
	return err
}

func (p *process) stop(ctx context.Context) error {
	return p.end(func(it *lab.Process) error { return it.Stop(ctx, stopGrace) })
}

func (p *process) kill(ctx context.Context) error {
	return p.end(func(it *lab.Process) error { return it.Kill(ctx) })
}

func (p *process) end(how func(*lab.Process) error) error {
	it, err := p.find()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return how(it)
}

// stopOutdated stops a process with other flags or an older program.
func (p *process) stopOutdated(ctx context.Context) error {
	it, err := p.find()
	if err != nil || !it.Alive() || slices.Equal(it.Args, p.args) && p.isCurrent(it) {
		return nil //nolint:nilerr // If none can be found there is none to stop.
	}
	return p.stop(ctx)
}

// isCurrent reports whether a process runs the program that is currently in bin: building replaces the file.
func (p *process) isCurrent(it *lab.Process) bool {
	running, err := os.Stat(fmt.Sprintf("/proc/%d/exe", it.PID))
	if err != nil {
		return false
	}
	built, err := os.Stat(p.args[0])
	return err == nil && os.SameFile(running, built)
}

func (p *process) ready(ctx context.Context) (string, error) {
	body, err := get(ctx, localURL("http", p.health)+"/readyz?verbose")
	if err == nil {
		return "", nil
	}
	it, found := p.find()
	if found == nil && it.Alive() {
		return fmt.Sprintf("%s is not ready: %v %s; its log ends with:\n%s", p.name, err, body, it.LogTail(logLines)), nil
	}
	tail := ""
	if found == nil {
		tail = it.LogTail(logLines)
	}
	return "", fmt.Errorf("%s ended while it started; its log ends with:\n%s", p.name, tail)
}

func (p *process) metrics(context.Context) (string, error) {
	return localURL("http", p.exporter) + "/metrics", nil
}

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func localURL(scheme string, port int) string { return scheme + "://" + localAddress(port) }
