package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// rowWorkers is the number of rows that are reconciled concurrently.
const rowWorkers = 4

// A failed reconcile is retried after firstRetry, then after twice that, up to lastRetry: soon after an apiserver is back, without loading it
// while it is down.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Run runs the agent on l until ctx ends, which is not an error. It returns link.ErrLeft when this cluster has left the hub, and another error
// when the connection breaks; the caller may then call it again after a while. The caller starts both clusters of l, before or soon after the
// call.
func Run(ctx context.Context, l link.Link) error {
	if err := registerMetrics(); err != nil {
		return err
	}
	defer forgetMetrics(l.Cluster)
	a, err := newAgent(ctx, l)
	if err != nil {
		return err
	}
	return a.run(ctx)
}

// agent is one run of the agent.
type agent struct {
	link       link.Link
	clusterUID string
	binding    *binding
	facts      *facts
	ledger     *ledger
	writer     writer
	watches    *watches
	memory     *memory
	released   *atomic.Bool
	// objects is a client for objects of any kind and uses mapper. kinds is a cache for them.
	objects client.Client
	mapper  *mapper
	kinds   cache.Cache
}

func newAgent(ctx context.Context, l link.Link) (*agent, error) {
	reader := l.Member.GetAPIReader()
	uid, err := link.ClusterUID(ctx, reader)
	if err != nil {
		return nil, err
	}
	ledger, err := newLedger(ctx, l.Member.GetClient(), reader)
	if err != nil {
		return nil, err
	}
	a := &agent{
		link:       l,
		clusterUID: uid,
		binding:    &binding{},
		facts:      &facts{},
		ledger:     ledger,
		memory:     newMemory(),
		released:   &atomic.Bool{},
	}
	if err := a.dial(); err != nil {
		return nil, err
	}
	a.writer = writer{client: a.objects, reader: a.objects, find: finder{reader: a.objects, mapper: a.mapper}, ledger: ledger}
	a.watches = newWatches(a.kinds)
	return a, nil
}

// dial makes the client and the cache for objects of any kind. Their mapper can forget kinds that are no longer served, which the mapper of
// the member's own client can't.
func (a *agent) dial() error {
	cfg, http, scheme := a.link.Member.GetConfig(), a.link.Member.GetHTTPClient(), a.link.Member.GetScheme()
	var err error
	a.mapper, err = newMapper(func() (meta.RESTMapper, error) { return apiutil.NewDynamicRESTMapper(cfg, http) })
	if err != nil {
		return err
	}
	if a.objects, err = client.New(cfg, client.Options{HTTPClient: http, Scheme: scheme, Mapper: a.mapper}); err != nil {
		return fmt.Errorf("make a client of the member: %w", err)
	}
	a.kinds, err = cache.New(cfg, cache.Options{
		HTTPClient: http, Scheme: scheme, Mapper: a.mapper, DefaultTransform: slim, ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return fmt.Errorf("make a cache of the member: %w", err)
	}
	return nil
}

func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave := leaver{
		link: a.link, clusterUID: a.clusterUID, ledger: a.ledger, writer: a.writer, released: a.released,
		left: func() { cancel(link.ErrLeft) },
	}
	if a.link.Left {
		return leave.followTombstone(ctx)
	}
	// This comes before the caches, which never sync for a cluster that has left.
	if err := a.checkCluster(ctx, leave); err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), link.ErrLeft) {
		return link.ErrLeft
	}
	group, gctx := errgroup.WithContext(ctx)
	if err := a.start(gctx, group, leave); err != nil {
		cancel(err)
		return errors.Join(err, group.Wait())
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), link.ErrLeft) {
		return link.ErrLeft
	}
	return nil
}

// checkCluster reads this cluster's MemberCluster to tell apart a hub that is down, a hub that doesn't know this cluster, and a hub that this
// cluster has left.
func (a *agent) checkCluster(ctx context.Context, leave leaver) error {
	err := a.link.Hub.GetAPIReader().Get(ctx, client.ObjectKey{Name: a.link.Cluster}, &fleetv1alpha1.MemberCluster{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("get member cluster %s: %w", a.link.Cluster, err)
	}
	if cerr := leave.check(ctx); cerr != nil {
		return cerr
	}
	if errors.Is(context.Cause(ctx), link.ErrLeft) {
		return nil
	}
	return fmt.Errorf("the hub does not let cluster %q in, or knows no such cluster: %w", a.link.Cluster, err)
}

// start starts the loops and the cache they share.
func (a *agent) start(ctx context.Context, group *errgroup.Group, leave leaver) error {
	member, err := discovery.NewDiscoveryClientForConfigAndClient(a.link.Member.GetConfig(), a.link.Member.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a client of the member: %w", err)
	}
	own := client.ObjectKey{Name: a.link.Cluster}
	trigger := &trigger{key: own}
	binder := &binder{
		link: a.link, clusterUID: a.clusterUID, binding: a.binding, facts: a.facts, leave: leave, enqueueRows: a.enqueueRows,
	}
	crds, err := crdInformer(a.link.Member.GetConfig(), a.link.Member.GetHTTPClient())
	if err != nil {
		return err
	}
	served := &servedKinds{
		client: a.objects, discovery: member, crds: crds, mapper: a.mapper, watches: a.watches,
		limits: a.link.Resources,
		report: func(kinds []fleetv1alpha1.ServedKind) {
			if a.facts.serve(kinds) {
				trigger.fire()
			}
		},
	}
	worker := &rows{
		link: a.link, binding: a.binding, ledger: a.ledger, writer: a.writer, find: a.writer.find, watches: a.watches, served: served,
		memory: a.memory, breaker: newBreaker(), started: a.link.Clock.Now(), distrust: binder.distrust, unclaimed: trigger.fire, throttle: report.Throttle{Interval: reportEvery},
	}
	bindingController, err := a.controller(ctx, "binding", 1, binder,
		trigger.source(),
		a.followHub(&fleetv1alpha1.MemberCluster{}, func(o client.Object) []client.ObjectKey {
			if o.GetName() != a.link.Cluster {
				return nil
			}
			return []client.ObjectKey{own}
		}),
		a.followHub(&fleetv1alpha1.MemberWork{}, func(o client.Object) []client.ObjectKey {
			row, ok := o.(*fleetv1alpha1.MemberWork)
			if !ok || row.Namespace != a.link.Namespace() || !a.binding.permission().unstored(row.Spec.Grant.Epoch) {
				return nil
			}
			return []client.ObjectKey{own}
		}),
		follow(a.link.Member.GetCache(), &fleetv1alpha1.Membership{}, func(client.Object) []client.ObjectKey {
			return []client.ObjectKey{own}
		}))
	if err != nil {
		return err
	}
	rowController, err := a.controller(ctx, "row", rowWorkers, worker,
		a.watches.kinds.Source(),
		a.followHub(&fleetv1alpha1.MemberWork{}, func(o client.Object) []client.ObjectKey {
			if o.GetNamespace() != a.link.Namespace() {
				return nil
			}
			return []client.ObjectKey{client.ObjectKeyFromObject(o)}
		}))
	if err != nil {
		return err
	}
	kindsController, err := a.controller(ctx, "kinds", 1, served, served.source())
	if err != nil {
		return err
	}
	alive, err := heartbeatClient(a.link.Member)
	if err != nil {
		return err
	}
	heart := &heartbeat{link: a.link, contact: contact{link: a.link, binding: a.binding}, facts: a.facts, leave: leave, changed: trigger.fire, member: alive}
	group.Go(func() error { return a.kinds.Start(ctx) })
	group.Go(func() error { crds.RunWithContext(ctx); return nil })
	group.Go(func() error { return bindingController.Start(ctx) })
	group.Go(func() error { return kindsController.Start(ctx) })
	group.Go(func() error { return rowController.Start(ctx) })
	group.Go(func() error { return heart.run(ctx) })
	return nil
}

// controller returns a controller that runs without a manager and lives as long as the link.
func (a *agent) controller(ctx context.Context, name string, workers int, r reconcile.Reconciler, sources ...source.Source) (controller.Controller, error) {
	c, err := controller.NewTypedUnmanaged("agent-"+name, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		SkipNameValidation:      new(true), // One process may run the agents of many clusters.
		RecoverPanic:            new(true),
		// Its workers may hang on shutdown (controller-runtime#3538), which would block the next connection.
		UsePriorityQueue: new(false),
		RateLimiter:      workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		Logger:           ctrl.LoggerFrom(ctx).WithName("agent").WithValues("cluster", a.link.Cluster),
	})
	if err != nil {
		return nil, fmt.Errorf("make controller %s: %w", name, err)
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("watch for controller %s: %w", name, err)
		}
	}
	return c, nil
}

// followHub is follow for objects on the hub.
func (a *agent) followHub(obj client.Object, keys keysOf) source.Source {
	if a.link.Follow == nil {
		return follow(a.link.Hub.GetCache(), obj, keys)
	}
	return source.Func(func(ctx context.Context, q queue) error {
		if err := a.link.Follow(ctx, obj, q, keys.change); err != nil {
			return fmt.Errorf("watch %T: %w", obj, err)
		}
		return nil
	})
}

// enqueueRows enqueues every row of the cluster.
func (a *agent) enqueueRows(ctx context.Context) error {
	list := &fleetv1alpha1.MemberWorkList{}
	if err := a.link.Hub.GetCache().List(ctx, list, client.InNamespace(a.link.Namespace())); err != nil {
		return fmt.Errorf("list rows: %w", err)
	}
	for i := range list.Items {
		a.watches.kinds.Enqueue(client.ObjectKeyFromObject(&list.Items[i]))
	}
	return nil
}
