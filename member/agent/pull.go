package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/flotilla-io/flotilla/member/agent/connect"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Limits for the back-off before connecting to the hub again. A connection that lasted longer than the upper limit resets it.
const (
	minReconnectDelay = time.Second
	maxReconnectDelay = time.Minute
)

// Options configures the agent of a pull member.
type Options struct {
	// Options say how to reach the hub. Setup fills in Reader, SecretClient and Release.
	connect.Options
	// Identity names this process in Leases, for human readers. Required.
	Identity string
	// Version is the version of the program. Required.
	Version string
	// Namespaces limits where the hub may place objects; by default anywhere.
	Namespaces link.NamespaceLimits
	// Resources limits which resources the hub may place; nil means all that the agent may write.
	Resources *link.ResourceLimits
}

// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=serviceaccounts,resourceNames=flotilla-agent,verbs=impersonate

// Setup adds the agent of a pull member to mgr. It runs in the leader.
func Setup(mgr ctrl.Manager, o Options) error {
	member, err := client.New(asAgent(mgr.GetConfig(), o.Namespace), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("create the agent's client: %w", err)
	}
	o.SecretClient = mgr.GetClient()
	p := newPuller(o, member, event.New(mgr.GetEventRecorder(link.AgentManager)))
	p.manager = mgr
	if err := mgr.Add(p); err != nil {
		return fmt.Errorf("set up the agent: %w", err)
	}
	return nil
}

// asAgent returns a configuration for requests with the agent's account, which has permissions for what a hub may place and nothing else. The
// manager impersonates the account. Unlike a token for it, impersonation ends with the manager's own credentials and works only with this
// apiserver.
func asAgent(cfg *rest.Config, namespace string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + link.AgentManager}
	return cfg
}

// puller keeps a connection to the hub, and runs the agent on it. A manager runs it only in the leader.
type puller struct {
	options Options
	manager ctrl.Manager
	// member reads from this cluster's apiserver and writes to it, with the agent's permissions.
	member client.Client
	events event.Recorder
}

func newPuller(o Options, member client.Client, events event.Recorder) *puller {
	p := &puller{options: o, member: member, events: events}
	p.options.Reader, p.options.Release = member, p.release
	return p
}

// Start connects until ctx ends or the cluster has left the hub. It returns nil, because a hub that is down must not stop the controllers of
// this cluster.
func (p *puller) Start(ctx context.Context) error {
	clock := p.options.Clock
	log := ctrl.LoggerFrom(ctx).WithName("agent").WithValues("cluster", p.options.Cluster)
	ctx = ctrl.LoggerInto(ctx, log)
	wait := minReconnectDelay
	for {
		began := clock.Now()
		err := p.runConnection(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // The end of ctx is not an error, whatever it interrupted.
		case errors.Is(err, link.ErrLeft):
			log.Info("Left the hub", "reason", "to join again, provide a new token and restart")
			return nil
		}
		if clock.Since(began) > maxReconnectDelay {
			wait = minReconnectDelay
		}
		log.Error(err, "Lost the connection to the hub", "after", wait)
		timer := clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
		wait = min(2*wait, maxReconnectDelay)
	}
}

// connect makes one attempt to connect. A failure is also reported in the conditions of the Membership.
func (p *puller) connect(ctx context.Context) (*connect.Connection, error) {
	connection, err := connect.Connect(ctx, p.options.Options)
	if err != nil {
		err = p.adviseRelease(ctx, err)
		p.reportFailure(ctx, err)
		return nil, err
	}
	return connection, nil
}

// runConnection connects and runs the agent until the connection ends.
func (p *puller) runConnection(ctx context.Context) error {
	connection, err := p.connect(ctx)
	if err != nil {
		return err
	}
	hub, err := cluster.New(connection.Config, func(o *cluster.Options) {
		o.Scheme, o.Cache, o.Logger = p.manager.GetScheme(), link.HubCache(p.options.Cluster), ctrl.LoggerFrom(ctx)
	})
	if err != nil {
		return fmt.Errorf("create a client for the hub: %w", err)
	}
	throttle := link.NewThrottle()
	cfg := asAgent(p.manager.GetConfig(), p.options.Namespace)
	cfg.RateLimiter = throttle
	member, err := event.NewCluster(cfg, func(o *cluster.Options) { o.Scheme, o.Logger = p.manager.GetScheme(), ctrl.LoggerFrom(ctx) })
	if err != nil {
		return fmt.Errorf("create the agent's connection to this cluster: %w", err)
	}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return hub.Start(running) })
	group.Go(func() error { return member.Start(running) })
	group.Go(func() error { return connection.Run(running) })
	group.Go(func() error {
		return Run(running, link.Link{
			Cluster: p.options.Cluster, URL: p.options.URL, Identity: p.options.Identity, Version: p.options.Version,
			Hub: hub, Member: member, Throttle: throttle, Events: event.New(member.GetEventRecorder(link.AgentManager)),
			Clock: p.options.Clock, Credential: connection.Credential, Namespaces: p.options.Namespaces, Resources: p.options.Resources,
		})
	})
	err = group.Wait()
	if errors.Is(err, link.ErrLeft) {
		return errors.Join(err, connection.Forget(ctx))
	}
	return err
}
