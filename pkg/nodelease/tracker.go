package nodelease

import (
	"context"
	"fmt"
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

// Cached limits a manager's cache of Leases to those of daemons in a namespace.
func Cached(namespace string) ctrlcache.ByObject {
	return ctrlcache.ByObject{Namespaces: map[string]ctrlcache.Config{
		namespace: {LabelSelector: labels.SelectorFromSet(labels.Set{keys.NodeDaemon: ""})},
	}}
}

// Tracker knows on which nodes a daemon lives. It may be used concurrently. The zero value is not usable; NewTracker makes
// one.
type Tracker struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	known map[string]renewal
}

// renewal is the last one of a Lease: which, and when we saw it.
type renewal struct {
	time time.Time
	seen time.Time
}

func (r renewal) live(now time.Time) bool { return !r.seen.IsZero() && now.Before(r.seen.Add(Lasting)) }

// NewTracker returns a tracker that has seen no Lease. Source feeds it.
func NewTracker(c clock.PassiveClock) *Tracker {
	return &Tracker{clock: c, known: map[string]renewal{}}
}

// Live tells whether a daemon lives on a node, as far as is known now.
func (t *Tracker) Live(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[node].live(t.clock.Now())
}

// note takes over what a Lease says, and tells whether a daemon has come to life by it.
func (t *Tracker) note(l *coordinationv1.Lease) (name string, came bool) {
	if name = node(l); name == "" || l.Spec.RenewTime == nil {
		return name, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now, was := t.clock.Now(), t.known[name]
	is := renewal{time: l.Spec.RenewTime.Time, seen: now}
	switch {
	case was.seen.IsZero() && is.time.Before(now):
		is.seen = is.time
	case is.time.Equal(was.time):
		return name, false
	}
	t.known[name] = is
	return name, is.live(now) && !was.live(now)
}

func (t *Tracker) forget(l *coordinationv1.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, node(l))
}

// Source feeds the tracker from a cache of Leases, and tells a controller what to look at when a daemon has come to life
// on a node. The controller begins when all Leases that exist are known.
func (t *Tracker) Source(
	c ctrlcache.Cache, wake func(ctx context.Context, node string) []reconcile.Request,
) source.SyncingSource {
	return &feed{tracker: t, cache: c, wake: wake}
}

// feed is the source of one controller.
type feed struct {
	tracker *Tracker
	cache   ctrlcache.Cache
	wake    func(context.Context, string) []reconcile.Request

	registration cache.ResourceEventHandlerRegistration
}

// Start begins to watch.
func (f *feed) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	informer, err := f.cache.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return fmt.Errorf("watch Leases of node daemons: %w", err)
	}
	seen := func(o any, initial bool) {
		l, ok := o.(*coordinationv1.Lease)
		if !ok {
			return
		}
		name, came := f.tracker.note(l)
		if !came || initial { // A controller that begins looks at everything anyway.
			return
		}
		for _, r := range f.wake(ctx, name) {
			queue.Add(r)
		}
	}
	f.registration, err = informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, o any) { seen(o, false) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if l, ok := o.(*coordinationv1.Lease); ok {
				f.tracker.forget(l)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch Leases of node daemons: %w", err)
	}
	return nil
}

// WaitForSync waits until the tracker knows all Leases that existed at Start.
func (f *feed) WaitForSync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), f.registration.HasSynced) {
		return fmt.Errorf("list Leases of node daemons: %w", context.Cause(ctx))
	}
	return nil
}

// String names the source in logs.
func (f *feed) String() string { return "leases of node daemons" }
