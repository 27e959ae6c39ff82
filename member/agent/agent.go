package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// rowWorkers is how many rows are worked on at once.
const rowWorkers = 4

// A failed reconcile is tried again after firstRetry, then after twice that, up to lastRetry: soon enough after an apiserver
// is back, and no burden while it is away.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Run is the agent: it works on l until ctx ends, which is no error. It returns link.ErrLeft when this cluster has left
// the hub, and another error when the connection can't go on; the caller may start it again then, after a while. Both
// clusters of l must be started by the caller, before or soon after.
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

// ClusterUID is who a cluster is: the UID of its namespace kube-system.
func ClusterUID(ctx context.Context, reader client.Reader) (string, error) {
	ns := &corev1.Namespace{}
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns); err != nil {
		return "", fmt.Errorf("get namespace %s, which identifies the cluster: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}

// agent is one run.
type agent struct {
	link       link.Link
	clusterUID string
	claim      *claimed
	facts      *facts
	ledger     *ledger
	hands      hands
	kinds      *kinds
	memory     *memory
	released   *atomic.Bool
}

func newAgent(ctx context.Context, l link.Link) (*agent, error) {
	reader := l.Member.GetAPIReader()
	uid, err := ClusterUID(ctx, reader)
	if err != nil {
		return nil, err
	}
	ledger, err := newLedger(ctx, l.Member.GetClient(), reader)
	if err != nil {
		return nil, err
	}
	return &agent{
		link:       l,
		clusterUID: uid,
		claim:      &claimed{},
		facts:      &facts{},
		ledger:     ledger,
		hands:      hands{client: l.Member.GetClient(), reader: reader, ledger: ledger},
		kinds:      newKinds(l.Member.GetCache()),
		memory:     newMemory(),
		released:   &atomic.Bool{},
	}, nil
}

func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave := leaver{
		link: a.link, clusterUID: a.clusterUID, ledger: a.ledger, hands: a.hands, released: a.released,
		left: func() { cancel(link.ErrLeft) },
	}
	if a.link.Left {
		return leave.obey(ctx)
	}
	// Before the caches, which never come up for a cluster that has left.
	if err := a.greet(ctx, leave); err != nil {
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

// greet reads the own MemberCluster, to tell apart a hub that is away, a hub that does not know us, and one that we left.
func (a *agent) greet(ctx context.Context, leave leaver) error {
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

// start starts the three loops.
func (a *agent) start(ctx context.Context, group *errgroup.Group, leave leaver) error {
	member, err := discovery.NewDiscoveryClientForConfigAndClient(a.link.Member.GetConfig(), a.link.Member.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a client of the member: %w", err)
	}
	own := client.ObjectKey{Name: a.link.Cluster}
	waker := &waker{key: own}
	claimer := &claims{link: a.link, clusterUID: a.clusterUID, claim: a.claim, facts: a.facts, leave: leave, wake: a.wakeRows}
	worker := &rows{link: a.link, claim: a.claim, ledger: a.ledger, hands: a.hands, kinds: a.kinds, memory: a.memory}
	claimController, err := a.controller(ctx, "claim", 1, claimer,
		waker.source(),
		follow(a.link.Hub.GetCache(), &fleetv1alpha1.MemberCluster{}, func(o client.Object) []client.ObjectKey {
			if o.GetName() != a.link.Cluster {
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
		a.kinds.source(),
		follow(a.link.Hub.GetCache(), &fleetv1alpha1.MemberWork{}, func(o client.Object) []client.ObjectKey {
			if o.GetNamespace() != a.link.Namespace() {
				return nil
			}
			return []client.ObjectKey{client.ObjectKeyFromObject(o)}
		}))
	if err != nil {
		return err
	}
	heart := &heartbeat{link: a.link, contact: contact{link: a.link, claim: a.claim}, facts: a.facts, leave: leave, news: waker.wake, member: member.RESTClient()}
	group.Go(func() error { return claimController.Start(ctx) })
	group.Go(func() error { return rowController.Start(ctx) })
	group.Go(func() error { return heart.run(ctx) })
	return nil
}

// controller makes a controller that no manager knows: it lives as long as the link.
func (a *agent) controller(ctx context.Context, name string, workers int, r reconcile.Reconciler, sources ...source.Source) (controller.Controller, error) {
	c, err := controller.NewTypedUnmanaged("agent-"+name, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		SkipNameValidation:      new(true), // One process may run the agents of many clusters.
		RecoverPanic:            new(true),
		// Its workers may hang when it shuts down (controller-runtime#3538), and with them the next try to connect.
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

// wakeRows queues every row of the cluster.
func (a *agent) wakeRows(ctx context.Context) error {
	list := &fleetv1alpha1.MemberWorkList{}
	if err := a.link.Hub.GetCache().List(ctx, list, client.InNamespace(a.link.Namespace())); err != nil {
		return fmt.Errorf("list rows: %w", err)
	}
	for i := range list.Items {
		a.kinds.enqueue(client.ObjectKeyFromObject(&list.Items[i]))
	}
	return nil
}
