package nodelease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Cached limits a manager's cache of Leases to those of the daemons in a namespace.
func Cached(namespace string) ctrlcache.ByObject {
	return ctrlcache.ByObject{Namespaces: map[string]ctrlcache.Config{
		namespace: {LabelSelector: labels.SelectorFromSet(labels.Set{keys.NodeDaemon: ""})},
	}}
}

// Tracker tracks on which nodes a daemon is alive, and its tasks there. One is enough for all controllers of a manager. It may be used
// concurrently. Use NewTracker to create one.
type Tracker struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	known    map[string]renewal
	handlers []func(node string)

	watching sync.Mutex
	// registration belongs to the single event handler; nil before the first Source has started.
	registration cache.ResourceEventHandlerRegistration
}

// renewal is the last renewal of a Lease, the time at which we observed it, and the daemon's tasks.
type renewal struct {
	time time.Time
	seen time.Time
	does []string
}

func (r renewal) live(now time.Time) bool {
	return !r.seen.IsZero() && now.Before(r.seen.Add(LeaseDuration))
}

// NewTracker returns a tracker that has observed no Lease. Source feeds it.
func NewTracker(c clock.PassiveClock) *Tracker {
	return &Tracker{clock: c, known: map[string]renewal{}}
}

// Live reports whether a daemon that restarts containers for their env is alive on a node.
func (t *Tracker) Live(node string) bool { return t.Does(node, RestartsForEnv) }

// Does reports whether a daemon with a certain task, such as PullsImages, is alive on a node.
func (t *Tracker) Does(node, what string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	current := t.known[node]
	return current.live(t.clock.Now()) && slices.Contains(current.does, what)
}

// observe records a Lease, and reports whether its daemon has become alive or its tasks have changed.
func (t *Tracker) observe(l *coordinationv1.Lease) (name string, alive bool) {
	if name = nodeOf(l); name == "" || l.Spec.RenewTime == nil {
		return name, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now, previous := t.clock.Now(), t.known[name]
	current := renewal{time: l.Spec.RenewTime.Time, seen: now, does: tasksOf(l)}
	switch {
	case previous.seen.IsZero() && current.time.Before(now):
		current.seen = current.time
	case current.time.Equal(previous.time):
		current.seen = previous.seen
	}
	t.known[name] = current
	return name, current.live(now) && (!previous.live(now) || !slices.Equal(current.does, previous.does))
}

func (t *Tracker) forget(l *coordinationv1.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, nodeOf(l))
}

// subscribe adds a function that is called with each node whose daemon becomes alive.
func (t *Tracker) subscribe(handler func(node string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handlers = append(t.handlers, handler)
}

func (t *Tracker) notify(node string) {
	t.mu.Lock()
	handlers := slices.Clone(t.handlers)
	t.mu.Unlock()
	for _, handle := range handlers {
		handle(node)
	}
}

// watch adds the tracker's event handler to the Lease informer, once.
func (t *Tracker) watch(ctx context.Context, c ctrlcache.Cache) (cache.ResourceEventHandlerRegistration, error) {
	t.watching.Lock()
	defer t.watching.Unlock()
	if t.registration != nil {
		return t.registration, nil
	}
	informer, err := c.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return nil, fmt.Errorf("watch Leases of node daemons: %w", err)
	}
	seen := func(o any, initial bool) {
		l, ok := o.(*coordinationv1.Lease)
		if !ok {
			return
		}
		if name, alive := t.observe(l); alive && !initial { // A controller reconciles everything at its start anyway.
			t.notify(name)
		}
	}
	t.registration, err = informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, o any) { seen(o, false) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if l, ok := o.(*coordinationv1.Lease); ok {
				t.forget(l)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch Leases of node daemons: %w", err)
	}
	return t.registration, nil
}

// Source feeds the tracker from a cache of Leases, and enqueues the requests from wake when a daemon becomes alive on a node. The controller
// starts once all existing Leases are known. All sources of a tracker must use the same cache.
func (t *Tracker) Source(
	c ctrlcache.Cache, wake func(ctx context.Context, node string) []reconcile.Request,
) source.SyncingSource {
	return &leases{tracker: t, cache: c, wake: wake}
}

// leases is the source of one controller.
type leases struct {
	tracker *Tracker
	cache   ctrlcache.Cache
	wake    func(context.Context, string) []reconcile.Request

	registration cache.ResourceEventHandlerRegistration
}

// Start starts the watch.
func (s *leases) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.tracker.subscribe(func(node string) {
		for _, r := range s.wake(ctx, node) {
			queue.Add(r)
		}
	})
	var err error
	s.registration, err = s.tracker.watch(ctx, s.cache)
	return err
}

// WaitForSync waits until the tracker knows all Leases that existed at Start.
func (s *leases) WaitForSync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), s.registration.HasSynced) {
		return fmt.Errorf("list Leases of node daemons: %w", context.Cause(ctx))
	}
	return nil
}

// String names the source in logs.
func (s *leases) String() string { return "leases of node daemons" }
