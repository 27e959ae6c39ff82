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
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// rowWorkers is the number of rows that are reconciled concurrently.
const rowWorkers = 4

// A failed reconcile is retried after firstRetry, then after twice that, up to lastRetry: rows recover soon after an apiserver is back, and a server
// that is down is not flooded.
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
	// objectClient is a client for objects of any kind and uses mapper. objectCache is a cache for them.
	objectClient client.Client
	objectCache  cache.Cache
	mapper       *mapper
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
	if err := a.createObjectClients(); err != nil {
		return nil, err
	}
	a.writer = writer{client: a.objectClient, reader: a.objectClient, find: finder{reader: a.objectClient, mapper: a.mapper}, ledger: ledger}
	a.watches = newWatches(a.objectCache)
	return a, nil
}

// createObjectClients makes the client and the cache for objects of any kind. Their mapper can forget kinds that are no longer served, which
// the mapper of the member's own client can't.
func (a *agent) createObjectClients() error {
	cfg, http, scheme := a.link.Member.GetConfig(), a.link.Member.GetHTTPClient(), a.link.Member.GetScheme()
	var err error
	a.mapper, err = newMapper(func() (meta.RESTMapper, error) { return apiutil.NewDynamicRESTMapper(cfg, http) })
	if err != nil {
		return err
	}
	if a.objectClient, err = client.New(cfg, client.Options{HTTPClient: http, Scheme: scheme, Mapper: a.mapper}); err != nil {
		return fmt.Errorf("create a client for the member: %w", err)
	}
	a.objectCache, err = cache.New(cfg, cache.Options{
		HTTPClient: http, Scheme: scheme, Mapper: a.mapper, DefaultTransform: stripForCache, ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return fmt.Errorf("create a cache for the member: %w", err)
	}
	return nil
}

func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave := leaver{
		link: a.link, clusterUID: a.clusterUID, ledger: a.ledger, writer: a.writer, released: a.released,
		stop: func() { cancel(link.ErrLeft) },
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
	if cerr := leave.checkLeft(ctx); cerr != nil {
		return cerr
	}
	if errors.Is(context.Cause(ctx), link.ErrLeft) {
		return nil
	}
	return fmt.Errorf("the hub doesn't admit cluster %q, or has no such cluster: %w", a.link.Cluster, err)
}

// start starts the loops and the cache they share.
func (a *agent) start(ctx context.Context, group *errgroup.Group, leave leaver) error {
	member, err := discovery.NewDiscoveryClientForConfigAndClient(a.link.Member.GetConfig(), a.link.Member.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("create a client for the member: %w", err)
	}
	clusterKey := client.ObjectKey{Name: a.link.Cluster}
	bindingTrigger := &trigger{key: clusterKey}
	binder := &bindingReconciler{
		link: a.link, clusterUID: a.clusterUID, binding: a.binding, facts: a.facts, leave: leave, enqueueRows: a.enqueueRows,
	}
	crds, err := crdInformer(a.link.Member.GetConfig(), a.link.Member.GetHTTPClient())
	if err != nil {
		return err
	}
	served := &servedKinds{
		client: a.objectClient, discovery: member, crds: crds, mapper: a.mapper, watches: a.watches,
		limits: a.link.Resources,
		report: func(kinds []fleetv1alpha1.ServedKind) {
			if a.facts.setKinds(kinds) {
				bindingTrigger.enqueue()
			}
		},
	}
	rows := &rowReconciler{
		link: a.link, binding: a.binding, ledger: a.ledger, writer: a.writer, find: a.writer.find, watches: a.watches, served: served,
		memory: a.memory, breaker: newBreaker(), started: a.link.Clock.Now(), distrust: binder.distrust, enqueueBinding: bindingTrigger.enqueue,
		throttle: report.Throttle{Interval: reportEvery},
	}
	bindingController, err := a.newController(ctx, "binding", 1, binder,
		bindingTrigger.source(),
		a.hubSource(&fleetv1alpha1.MemberCluster{}, func(o client.Object) []client.ObjectKey {
			if o.GetName() != a.link.Cluster {
				return nil
			}
			return []client.ObjectKey{clusterKey}
		}),
		a.hubSource(&fleetv1alpha1.MemberWork{}, func(o client.Object) []client.ObjectKey {
			row, ok := o.(*fleetv1alpha1.MemberWork)
			if !ok || row.Namespace != a.link.Namespace() || !a.binding.permission().mustStoreEpoch(row.Spec.Grant.Epoch) {
				return nil
			}
			return []client.ObjectKey{clusterKey}
		}),
		sourceOf(a.link.Member.GetCache(), &fleetv1alpha1.Membership{}, func(client.Object) []client.ObjectKey {
			return []client.ObjectKey{clusterKey}
		}))
	if err != nil {
		return err
	}
	rowController, err := a.newController(ctx, "row", rowWorkers, rows,
		a.watches.kinds.Source(),
		a.hubSource(&fleetv1alpha1.MemberWork{}, func(o client.Object) []client.ObjectKey {
			if o.GetNamespace() != a.link.Namespace() {
				return nil
			}
			return []client.ObjectKey{client.ObjectKeyFromObject(o)}
		}))
	if err != nil {
		return err
	}
	kindsController, err := a.newController(ctx, "kinds", 1, served, served.source())
	if err != nil {
		return err
	}
	memberClient, err := heartbeatClient(a.link.Member)
	if err != nil {
		return err
	}
	heartbeat := &heartbeat{
		link: a.link, contact: contact{link: a.link, binding: a.binding}, facts: a.facts, leave: leave, enqueueBinding: bindingTrigger.enqueue,
		member: memberClient,
	}
	group.Go(func() error { return a.objectCache.Start(ctx) })
	group.Go(func() error { crds.RunWithContext(ctx); return nil })
	group.Go(func() error { return bindingController.Start(ctx) })
	group.Go(func() error { return kindsController.Start(ctx) })
	group.Go(func() error { return rowController.Start(ctx) })
	group.Go(func() error { return heartbeat.run(ctx) })
	return nil
}

// newController returns a controller that runs without a manager and lives as long as the link.
func (a *agent) newController(ctx context.Context, name string, workers int, r reconcile.Reconciler, sources ...source.Source) (controller.Controller, error) {
	c, err := controller.NewTypedUnmanaged("agent-"+name, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		SkipNameValidation:      new(true), // One process may run the agents of many clusters.
		RecoverPanic:            new(true),
		// Workers of a priority queue may hang on shutdown (controller-runtime#3538), which would block the next connection.
		UsePriorityQueue: new(false),
		RateLimiter:      workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		Logger:           ctrl.LoggerFrom(ctx).WithName("agent").WithValues("cluster", a.link.Cluster),
	})
	if err != nil {
		return nil, fmt.Errorf("create controller %s: %w", name, err)
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("set up watches of controller %s: %w", name, err)
		}
	}
	return c, nil
}

// hubSource is sourceOf for objects on the hub.
func (a *agent) hubSource(obj client.Object, keys mapFunc) source.Source {
	if a.link.Follow == nil {
		return sourceOf(a.link.Hub.GetCache(), obj, keys)
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
