package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/testkit/lab"
)

// Namespace is where the charts are installed, in every cluster.
const Namespace = "flotilla-system"

// Names of the clusters, without Options.Prefix; those of the members are their names on the hub as well.
const (
	hubName  = "hub"
	EastName = "east"
	WestName = "west"
)

const (
	defaultNodes = 6
	// patience is how long a single thing may take that takes a second on a quiet machine.
	patience = 2 * time.Minute
)

// Options says what fleet to bring up. The zero value is the demonstration's.
type Options struct {
	// Prefix comes before the names of the clusters in the lab, such as "e2e-", so that fleets don't meet.
	Prefix string
	// Nodes is how many simulated nodes each member has; default 6. They lie in three zones.
	Nodes int
	// Heartbeat replaces that of the MemberClusters in e2e/examples; nil keeps it.
	Heartbeat *fleetv1alpha1.Heartbeat
	// Profiles lets the managers serve profiles, for Manager.Profile.
	Profiles bool
	// Progress is told of each stage.
	Progress lab.Progress
}

// Fleet is a hub and its members. Its methods may be called concurrently.
type Fleet struct {
	Hub, East, West *Cluster
	// Root is the repository's folder.
	Root string

	options Options
}

// Members returns the member clusters.
func (f *Fleet) Members() []*Cluster { return []*Cluster{f.East, f.West} }

// Clusters returns all clusters.
func (f *Fleet) Clusters() []*Cluster { return []*Cluster{f.Hub, f.East, f.West} }

// Up brings a fleet up and returns when both members are Ready on the hub. On one that runs it goes on; what was killed
// comes back with its data; a manager whose program was built anew is started anew. A fleet of which a cluster is missing
// is made from scratch. What the error leaves behind, the next Up continues and Down removes.
//
// The programs must be in bin/ of the repository (make build).
func Up(ctx context.Context, o Options) (*Fleet, error) {
	if o.Nodes == 0 {
		o.Nodes = defaultNodes
	}
	root, err := repository()
	if err != nil {
		return nil, err
	}
	if err := o.dropPartial(ctx); err != nil {
		return nil, err
	}
	f := &Fleet{Root: root, options: o}
	err = parallel(
		func() error { return f.bring(ctx, &f.Hub, hubName, "") },
		func() error { return f.bring(ctx, &f.East, EastName, "kwok:"+strconv.Itoa(o.Nodes)) },
		func() error { return f.bring(ctx, &f.West, WestName, "kwok:"+strconv.Itoa(o.Nodes)) },
	)
	if err != nil {
		return nil, err
	}
	// West's manager needs no hub, but its agent's account; east's needs a token from a hub that runs.
	err = parallel(
		func() error { return f.installHub(ctx) },
		func() error { return f.installWest(ctx) },
		func() error { return f.installEast(ctx) },
	)
	if err != nil {
		return nil, err
	}
	if err := f.stage("hub: both members join", func() error { return f.join(ctx) }); err != nil {
		return nil, err
	}
	return f, nil
}

// Down ends a fleet and removes all of it. One that does not exist is success.
func Down(ctx context.Context, o Options) error {
	names := []string{EastName, WestName, hubName}
	errs := make([]error, 0, len(names))
	for _, name := range names {
		done := func(error) {}
		if o.Progress != nil {
			done = o.Progress(name + ": down")
		}
		err := lab.Down(ctx, o.Prefix+name)
		if errors.Is(err, lab.ErrNotFound) {
			err = nil
		}
		done(err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Down does what the function Down does.
func (f *Fleet) Down(ctx context.Context) error { return Down(ctx, f.options) }

// dropPartial removes a fleet of which a cluster is missing: the others know a cluster that is gone for good.
func (o Options) dropPartial(ctx context.Context) error {
	there := 0
	for _, name := range []string{hubName, EastName, WestName} {
		_, err := lab.Get(o.Prefix + name)
		if err == nil {
			there++
		} else if !errors.Is(err, lab.ErrNotFound) {
			return err
		}
	}
	if there == 0 || there == 3 {
		return nil
	}
	return Down(ctx, o)
}

// bring brings up one control plane.
func (f *Fleet) bring(ctx context.Context, into **Cluster, name, nodes string) error {
	c, err := lab.Up(ctx, lab.Config{Name: f.options.Prefix + name, Nodes: nodes, Audit: true, Progress: f.options.Progress})
	if err != nil {
		return err
	}
	*into, err = newCluster(name, c)
	return err
}

func (f *Fleet) installHub(ctx context.Context) error {
	c := f.Hub
	err := f.stage("hub: chart", func() error {
		return f.install(ctx, c, "hub")
	})
	if err != nil {
		return err
	}
	return f.stage("hub: manager", func() error {
		return f.run(ctx, c, "flotilla-hub")
	})
}

func (f *Fleet) installWest(ctx context.Context) error {
	c := f.West
	err := f.stage("west: chart", func() error {
		return f.install(ctx, c, "member", "--set", "agent.push=true")
	})
	if err != nil {
		return err
	}
	return f.stage("west: manager", func() error {
		return f.run(ctx, c, "flotilla-member")
	})
}

func (f *Fleet) installEast(ctx context.Context) error {
	return f.stage("east: chart", func() error {
		return f.install(ctx, f.East, "member") // Who the hub is, it learns when it joins.
	})
}

// run makes sure that a cluster's manager runs, from the present program and with the present flags.
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
	c.Manager = &Manager{
		Name: program, cluster: c, health: ports[portHealth], metrics: ports[portMetrics], profile: ports[portProfile],
		args: append([]string{
			filepath.Join(f.Root, "bin", program),
			"--kubeconfig=" + kubeconfig,
			"--namespace=" + Namespace,
			"--webhook-url=" + localURL("https", ports[portWebhook]),
			"--health-probe-addr=" + localAddress(ports[portHealth]),
			"--metrics-addr=" + localAddress(ports[portMetrics]),
			// A manager that was killed keeps its Lease: the next one waits for that long.
			"--leader-election-lease-duration=10s",
			"--leader-election-renew-deadline=8s",
			"--leader-election-retry-period=1s",
			"--v=1",
		}, flags...),
	}
	return c.Manager.ensure(ctx)
}

// stage does one stage of work and reports it.
func (f *Fleet) stage(name string, work func() error) error {
	if f.options.Progress == nil {
		return work()
	}
	done := f.options.Progress(name)
	err := work()
	done(err)
	return err
}

// Namespace makes a namespace in every cluster, unless it is there.
func (f *Fleet) Namespace(ctx context.Context, name string, labels map[string]string) error {
	for _, c := range f.Clusters() {
		ns := &corev1.Namespace{}
		ns.Name, ns.Labels = name, labels
		if err := c.Client.Create(ctx, ns); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("%s: create namespace %s: %w", c.Name, name, err)
		}
	}
	return nil
}

// parallel runs all and joins their errors.
func parallel(work ...func() error) error {
	errs := make([]error, len(work))
	var wg sync.WaitGroup
	for i, w := range work {
		wg.Go(func() { errs[i] = w() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
