package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// Namespace is the namespace in which the charts are installed, in every cluster.
const Namespace = "flotilla-system"

// Names of the clusters, without Options.Prefix. The members have the same names on the hub.
const (
	HubName  = "hub"
	EastName = "east"
	WestName = "west"
)

const (
	defaultNodes = "kwok:6"
	// hubNodes is the node for the hub's manager, if managers run in pods.
	hubNodes = "real:1"
)

//nolint:gochecknoglobals // Constants of this machine.
var (
	// patience is the timeout of one action. On an idle machine an action takes a second.
	patience = testtimeout.Scale(2 * time.Minute)
	// installation is the timeout of installing a chart whose pods have to become ready, from images that a new node loads, while other clusters
	// start.
	installation = testtimeout.Scale(5 * time.Minute)
)

// Options describe a fleet. The zero value is the demonstration's fleet.
type Options struct {
	// Prefix is put before the names of the lab clusters, such as "e2e-", so that fleets don't conflict.
	Prefix string
	// Nodes are the nodes of each member, in the format of lab.Config. The default is "kwok:6": six simulated nodes in three zones, with the
	// managers as processes beside the clusters. With real nodes, such as "real:2", the managers run in pods, installed by helm from our images,
	// and the hub has a real node for its manager.
	Nodes string
	// FeatureGates are Kubernetes feature gates for each cluster, in the format of lab.Config.
	FeatureGates []string
	// MemberValues are flags for helm for the member charts, in addition to those of every installation here.
	MemberValues []string
	// HubValues are the same for the hub's chart. HubFlags are flags of a manager that runs beside the hub's cluster.
	HubValues, HubFlags []string
	// MemberGates are feature gates of members, as Name=true.
	MemberGates []string
	// MemberKinds are hub.kinds of the members' charts, in the format of flag --hub-kinds.
	MemberKinds []string
	// MemberFlags are flags of members' managers that run beside their clusters. These don't get any from the chart's values.
	MemberFlags []string
	// Push makes both members join by push. Otherwise east joins by pull, so that a fleet has one of each.
	Push bool
	// Heartbeat replaces the heartbeat of the MemberClusters in e2e/examples. Nil keeps it.
	Heartbeat *fleetv1alpha1.Heartbeat
	// Volumes provisions volumes for PVCs in the members while the tests of Main run, using package volume.
	Volumes bool
	// PatientLeader lets managers keep their Leases on a machine that is too busy to renew them in time, as in a benchmark: nothing restarts a
	// manager that ended because it lost its Lease.
	PatientLeader bool
	// Profiles makes the managers serve profiles, for Manager.Profile.
	Profiles bool
	// Programs returns the programs of the clusters. Nil means lab.Binaries.
	Programs func(context.Context, lab.Progress) (lab.Bin, error)
	// Managers builds the managers in bin/ while the clusters start. Nil means that they are already built.
	Managers func(context.Context) error
	// Progress is called for each stage.
	Progress lab.Progress
}

// Fleet is a hub and its members. Its methods are safe for concurrent use.
type Fleet struct {
	Hub, East, West *Cluster
	// Root is the repository's folder.
	Root string
	// Tag is the tag of our images on real nodes.
	Tag string

	options Options
	bin     lab.Bin
	// pods is true if the managers run in pods.
	pods bool
	// archives are the files with the images that are loaded into real nodes.
	archives []string
}

// Members returns the member clusters.
func (f *Fleet) Members() []*Cluster { return []*Cluster{f.East, f.West} }

// Clusters returns all clusters.
func (f *Fleet) Clusters() []*Cluster { return []*Cluster{f.Hub, f.East, f.West} }

// Up starts a fleet, and returns when both members are Ready on the hub. It keeps what runs, restarts what was killed with its data, and
// restarts managers whose program was rebuilt. If one of the clusters is missing, it creates the fleet from scratch. After an error, another
// Up continues, and Down removes what exists.
//
// The managers must be in bin/ of the repository (make build) unless Options.Managers builds them. Up builds the images.
func Up(ctx context.Context, o Options) (*Fleet, error) {
	f, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	if err := f.options.dropPartial(ctx); err != nil {
		return nil, err
	}
	nodes := ""
	if f.pods {
		nodes = hubNodes
		if err := f.stage("images", func() error { f.archives, err = f.makeImages(ctx); return err }); err != nil {
			return nil, err
		}
	}
	group, groupCtx := errgroup.WithContext(ctx) // A failed build cancels the other one.
	group.Go(func() error { return f.buildManagers(groupCtx) })
	group.Go(func() error { return f.bringAll(groupCtx, nodes) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	// A push member's manager needs its agent's account but no hub. A pull member needs a token from a running hub.
	err = parallel(
		func() error { return f.installHub(ctx) },
		func() error { return f.installPushed(ctx, f.West) },
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

func newFleet(o Options) (*Fleet, error) {
	if o.Nodes == "" {
		o.Nodes = defaultNodes
	}
	count, err := lab.ParseNodes(o.Nodes)
	if err != nil {
		return nil, err
	}
	f := &Fleet{options: o, pods: count.Real > 0}
	f.Root, err = lab.Repository()
	return f, err
}

// leader returns the flags for the managers' leader election.
func (o Options) leader() []string {
	if o.PatientLeader {
		return []string{
			"--leader-election-lease-duration=120s", "--leader-election-renew-deadline=90s", "--leader-election-retry-period=5s",
		}
	}
	return QuickLeader()
}

// Down stops a fleet and removes it. It succeeds if the fleet doesn't exist.
func Down(ctx context.Context, o Options) error {
	names := []string{EastName, WestName, HubName}
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

// Down is like the function Down, for this fleet.
func (f *Fleet) Down(ctx context.Context) error { return Down(ctx, f.options) }

// dropPartial removes a fleet if one of its clusters is missing, because the others refer to it.
func (o Options) dropPartial(ctx context.Context) error {
	there := 0
	for _, name := range []string{HubName, EastName, WestName} {
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

// bringAll starts the control planes, once their programs are built.
func (f *Fleet) bringAll(ctx context.Context, hubNodes string) error {
	programs := f.options.Programs
	if programs == nil {
		programs = lab.Binaries
	}
	var err error
	if f.bin, err = programs(ctx, f.options.Progress); err != nil {
		return err
	}
	return parallel(
		func() error { return f.startCluster(ctx, &f.Hub, HubName, hubNodes) },
		func() error { return f.startCluster(ctx, &f.East, EastName, f.options.Nodes) },
		func() error { return f.startCluster(ctx, &f.West, WestName, f.options.Nodes) },
	)
}

func (f *Fleet) buildManagers(ctx context.Context) error {
	if f.options.Managers == nil {
		return nil
	}
	return f.stage("make build", func() error { return f.options.Managers(ctx) })
}

// startCluster starts one control plane.
func (f *Fleet) startCluster(ctx context.Context, into **Cluster, name, nodes string) error {
	c, err := lab.Up(ctx, lab.Config{
		Name: f.options.Prefix + name, Nodes: nodes, Audit: true, FeatureGates: f.options.FeatureGates, Bin: f.bin,
		Progress: f.options.Progress,
	})
	if err != nil {
		return err
	}
	if *into, err = newCluster(name, f.Root, c); err != nil || !f.pods {
		return err
	}
	return f.stage(name+": images", func() error { return f.loadImages(ctx, c) })
}

// Bring starts another cluster beside a fleet with real nodes, with our images. The caller must remove it.
func (f *Fleet) Bring(ctx context.Context, name, nodes string) (*Cluster, error) {
	var c *Cluster
	err := f.startCluster(ctx, &c, name, nodes)
	return c, err
}

// Install installs the member chart in another cluster. flags are flags for helm.
func (f *Fleet) Install(ctx context.Context, c *Cluster, flags ...string) error {
	return f.installManager(ctx, c, "flotilla-member", "member", flags...)
}

func (f *Fleet) installHub(ctx context.Context) error {
	return f.installManager(ctx, f.Hub, "flotilla-hub", "hub")
}

func (f *Fleet) installPushed(ctx context.Context, c *Cluster) error {
	return f.installManager(ctx, c, "flotilla-member", "member", "--set", "agent.push=true")
}

// installEast installs the chart without a hub, which joining sets. A manager beside the cluster is started only then.
func (f *Fleet) installEast(ctx context.Context) error {
	if f.options.Push {
		return f.installPushed(ctx, f.East)
	}
	if f.pods {
		return f.installManager(ctx, f.East, "flotilla-member", "member")
	}
	return f.stage("east: chart", func() error { return f.install(ctx, f.East, "member") })
}

// installManager installs a chart and starts its manager. flags are flags for helm.
func (f *Fleet) installManager(ctx context.Context, c *Cluster, program, chart string, flags ...string) error {
	if f.pods {
		return f.stage(c.Name+": helm install", func() error { return f.release(ctx, c, program, chart, flags...) })
	}
	if err := f.stage(c.Name+": chart", func() error { return f.install(ctx, c, chart, flags...) }); err != nil {
		return err
	}
	return f.stage(c.Name+": manager", func() error { return f.run(ctx, c, program) })
}

// chartFlags returns the flags for helm for a chart, in addition to those of the current installation.
func (o Options) chartFlags(chart string) []string {
	if chart != "member" {
		return o.HubValues
	}
	flags := slices.Clone(o.MemberValues)
	for i, kind := range o.MemberKinds {
		r := schema.ParseGroupResource(kind)
		flags = append(flags, "--set", fmt.Sprintf("hub.kinds[%d].group=%s", i, r.Group), "--set", fmt.Sprintf("hub.kinds[%d].resources={%s}", i, r.Resource))
	}
	if len(o.MemberGates) > 0 {
		flags = append(flags, "--set", "featureGates="+strings.Join(o.MemberGates, `\,`))
	}
	return flags
}

// stage runs one stage and reports it.
func (f *Fleet) stage(name string, work func() error) error {
	if f.options.Progress == nil {
		return work()
	}
	done := f.options.Progress(name)
	err := work()
	done(err)
	return err
}

// Namespace creates a namespace in every cluster, unless it exists.
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

// parallel runs all functions and joins their errors.
func parallel(work ...func() error) error {
	errs := make([]error, len(work))
	var wg sync.WaitGroup
	for i, w := range work {
		wg.Go(func() { errs[i] = w() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
