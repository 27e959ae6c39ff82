package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/member/workload/daemonset"
	"github.com/flotilla-io/flotilla/member/workload/statefulset"
	"github.com/flotilla-io/flotilla/member/workload/uniteddeployment"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// Bounds of the wait before the hub is tried again. A connection that lasted longer than the upper one counts as good.
const (
	dialMin = time.Second
	dialMax = time.Minute
)

// Options are what Setup needs.
type Options struct {
	// CloneSetWorkers and the like are how many objects of a kind are worked on at a time; 0 is 3.
	CloneSetWorkers, DaemonSetWorkers, StatefulSetWorkers, UnitedDeploymentWorkers int
	// ParallelWrites is how many writes to pods run at once for one object; 0 is podcontrol.Parallel.
	ParallelWrites int
	// ExpectationTimeout is how long a cache may lack our own writes; 0 is 5 minutes.
	ExpectationTimeout time.Duration
	// KeepTemplates leaves pod templates without the apiserver's defaults: gate TemplateNoDefaults.
	KeepTemplates bool
	// InPlace says what may change in a running pod.
	InPlace inplace.Options
	// CloneSet are the feature gates of CloneSet.
	CloneSet cloneset.Gates
	// StatefulSet are the feature gates of StatefulSet.
	StatefulSet statefulset.Gates
	// LocalHub says that a hub runs in this cluster: subsets of UnitedDeployments may name clusters, and it runs those.
	LocalHub bool
	// Hub is how this cluster joins a hub by pull; nil for none. Setup fills in the clients of this cluster, the clock and
	// the events.
	Hub *agent.Options
	// Identity names this process in Leases, for people. Needed with Hub.
	Identity string
	// Version is the program's. Needed with Hub.
	Version string
	// Clock is the real clock outside tests. Required.
	Clock clock.WithTicker
}

// Scheme returns the kinds that a member works with.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s),
		appsv1beta1.AddToScheme(s), appsv1alpha1.AddToScheme(s), fleetv1alpha1.AddToScheme(s))
}

// CRDs names those whose versions a member converts.
func CRDs() []string {
	return []string{
		"clonesets.apps.kruise.io", "daemonsets.apps.kruise.io", "statefulsets.apps.kruise.io", "uniteddeployments.apps.kruise.io",
	}
}

// Restrict keeps a manager's cache small and within its roles: no Secret is cached, of Leases those of node daemons beside
// the manager's own, and what nobody here reads from a cache is dropped: managedFields, and of pods and nodes all that
// podset.Strip and podset.StripNode name.
func Restrict(o ctrl.Options) ctrl.Options {
	o.Cache = cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:           {Transform: strip(podset.Strip)},
			&corev1.Node{}:          {Transform: strip(podset.StripNode)},
			&coordinationv1.Lease{}: nodelease.Cached(o.LeaderElectionNamespace),
		},
	}
	o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}
	return o
}

func strip[T any](from func(T)) toolscache.TransformFunc {
	return func(o any) (any, error) {
		if is, ok := o.(T); ok {
			from(is)
		}
		return o, nil
	}
}

// What the manager itself needs: its Lease and those of node daemons, its events, its webhook certificate and the
// configurations that carry it.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,resourceNames=flotilla-member,verbs=get;update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,resourceNames=flotilla-member-webhook,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=flotilla-member,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clonesets.apps.kruise.io;daemonsets.apps.kruise.io;statefulsets.apps.kruise.io;uniteddeployments.apps.kruise.io,verbs=get;list;watch;patch

// Setup adds all controllers and webhooks of a member to mgr, which must have been made with Scheme and Restrict, and the
// agent if there is a hub.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := lookUp(ctx, mgr, &o.InPlace); err != nil {
		return err
	}
	err := cloneset.Setup(ctx, mgr, cloneset.Options{Options: o.pods(o.CloneSetWorkers), Gates: o.CloneSet})
	if err != nil {
		return err
	}
	err = daemonset.Setup(ctx, mgr, daemonset.Options{Options: o.pods(o.DaemonSetWorkers)})
	if err != nil {
		return err
	}
	err = statefulset.Setup(ctx, mgr, statefulset.Options{Options: o.pods(o.StatefulSetWorkers), Gates: o.StatefulSet})
	if err != nil {
		return err
	}
	err = uniteddeployment.Setup(ctx, mgr, uniteddeployment.Options{
		Workers: o.UnitedDeploymentWorkers, ExpectationTimeout: o.ExpectationTimeout, Clock: o.Clock,
	})
	if err != nil {
		return err
	}
	if err := setupWebhooks(mgr, o); err != nil {
		return err
	}
	if o.Hub == nil {
		return nil
	}
	hub := *o.Hub
	hub.Member, hub.Reader, hub.Clock = mgr.GetClient(), mgr.GetAPIReader(), o.Clock
	hub.Events = event.New(mgr.GetEventRecorder(link.AgentManager))
	if err := mgr.Add(&puller{member: mgr, hub: hub, options: o}); err != nil {
		return fmt.Errorf("set up the agent: %w", err)
	}
	return nil
}

// lookUp notes what the apiserver lacks for updates in place.
func lookUp(ctx context.Context, mgr ctrl.Manager, may *inplace.Options) error {
	if !may.Resources {
		return nil
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	can, err := podcontrol.CanResize(d)
	if err != nil {
		return err
	}
	if may.NoResize = !can; may.NoResize {
		ctrl.LoggerFrom(ctx).Info("Resources are not updated in place",
			"reason", "the apiserver has no pods/resize, as Kubernetes does from 1.33 on; start anew after an upgrade")
	}
	return nil
}

// pods are the options of a kind that owns pods.
func (o Options) pods(workers int) podcontrol.Options {
	return podcontrol.Options{
		Workers: workers, Parallel: o.ParallelWrites, ExpectationTimeout: o.ExpectationTimeout, Clock: o.Clock,
		InPlace: o.InPlace, Daemons: nodelease.NewTracker(o.Clock),
	}
}

// setupWebhooks registers what apiservers call.
func setupWebhooks(mgr ctrl.Manager, o Options) error {
	sets := &cloneset.Webhook{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), KeepTemplates: o.KeepTemplates, InPlace: o.InPlace,
	}
	err := admit.Register(mgr, admit.Registration[*appsv1beta1.CloneSet]{
		Object: &appsv1beta1.CloneSet{}, Defaulter: sets, Validator: sets,
		Converter: conversion.NewHubSpokeConverter(&appsv1beta1.CloneSet{}, conversion.NewSpokeConverter(
			&appsv1alpha1.CloneSet{}, appsv1alpha1.CloneSetFromHub, appsv1alpha1.CloneSetToHub)),
	})
	if err != nil {
		return err
	}
	stateful := &statefulset.Webhook{Client: mgr.GetClient(), KeepTemplates: o.KeepTemplates, InPlace: o.InPlace, Gates: o.StatefulSet}
	err = admit.Register(mgr, admit.Registration[*appsv1beta1.StatefulSet]{
		Object: &appsv1beta1.StatefulSet{}, Defaulter: stateful, Validator: stateful,
		Converter: conversion.NewHubSpokeConverter(&appsv1beta1.StatefulSet{}, conversion.NewSpokeConverter(
			&appsv1alpha1.StatefulSet{}, appsv1alpha1.StatefulSetFromHub, appsv1alpha1.StatefulSetToHub)),
	})
	if err != nil {
		return err
	}
	daemons := &daemonset.Webhook{Client: mgr.GetClient()}
	err = admit.Register(mgr, admit.Registration[*appsv1beta1.DaemonSet]{
		Object: &appsv1beta1.DaemonSet{}, Defaulter: daemons, Validator: daemons,
		Converter: conversion.NewHubSpokeConverter(&appsv1beta1.DaemonSet{}, conversion.NewSpokeConverter(
			&appsv1alpha1.DaemonSet{}, appsv1alpha1.DaemonSetFromHub, appsv1alpha1.DaemonSetToHub)),
	})
	if err != nil {
		return err
	}
	unions := &united.Webhook{
		Client: mgr.GetClient(), KeepTemplates: o.KeepTemplates,
		Options: united.Options{
			AllowClusters: o.LocalHub, CloneSet: cloneset.ValidateSpec, StatefulSet: statefulset.ValidateSpec,
		},
	}
	return admit.Register(mgr, admit.Registration[*appsv1beta1.UnitedDeployment]{
		Object: &appsv1beta1.UnitedDeployment{}, Defaulter: unions, Validator: unions,
		Converter: conversion.NewHubSpokeConverter(&appsv1beta1.UnitedDeployment{}, conversion.NewSpokeConverter(
			&appsv1alpha1.UnitedDeployment{}, appsv1alpha1.UnitedDeploymentFromHub, appsv1alpha1.UnitedDeploymentToHub)),
	})
}

// puller keeps a connection to the hub, and runs the agent on it. A manager runs it in the leader only.
type puller struct {
	member  ctrl.Manager
	hub     agent.Options
	options Options
}

// Start connects until ctx ends or the cluster has left the hub. It returns nil: a hub that is down must not stop the controllers of
// this cluster.
func (p *puller) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("agent").WithValues("cluster", p.hub.Cluster)
	ctx = ctrl.LoggerInto(ctx, log)
	wait := dialMin
	for {
		began := p.options.Clock.Now()
		err := p.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // The end of ctx is no error, whatever it broke off.
		case errors.Is(err, link.ErrLeft):
			log.Info("Left the hub", "reason", "to join again, give a new token and start anew")
			return nil
		}
		if p.options.Clock.Since(began) > dialMax {
			wait = dialMin
		}
		log.Error(err, "Lost the connection to the hub", "after", wait)
		timer := p.options.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
		wait = min(2*wait, dialMax)
	}
}

// session runs one connection.
func (p *puller) session(ctx context.Context) error {
	connection, err := agent.Connect(ctx, p.hub)
	if err != nil {
		return err
	}
	hub, err := cluster.New(connection.Config, func(o *cluster.Options) {
		o.Scheme, o.Cache, o.Logger = p.member.GetScheme(), link.HubCache(p.hub.Cluster), ctrl.LoggerFrom(ctx)
	})
	if err != nil {
		return fmt.Errorf("make a client of the hub: %w", err)
	}
	throttle := link.NewThrottle()
	throttled, err := link.Throttled(p.member, throttle)
	if err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return hub.Start(running) })
	group.Go(func() error { return connection.Run(running) })
	group.Go(func() error {
		return agent.Run(running, link.Link{
			Cluster: p.hub.Cluster, URL: p.hub.URL, Identity: p.options.Identity, Version: p.options.Version,
			Hub: hub, Member: throttled, Throttle: throttle, Events: event.New(p.member.GetEventRecorder(link.AgentManager)),
			Clock: p.options.Clock, Credential: connection.Credential,
		})
	})
	err = group.Wait()
	if errors.Is(err, link.ErrLeft) {
		return errors.Join(err, connection.Forget(ctx))
	}
	return err
}
