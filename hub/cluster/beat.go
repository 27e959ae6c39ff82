package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// hubOwner is the value of the cluster label on the hub's own Lease, so that one selector covers it and the members' Leases. No MemberCluster
// may have that name.
const hubOwner = "system"

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func request(cluster string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: cluster}}
}

// beat renews the hub's own Lease. The response doesn't matter. What counts is that the renewal arrives through the watch.
type beat struct {
	client   client.Client
	clock    clock.WithTicker
	tracker  *tracker
	meters   *meters
	identity string
	every    time.Duration
}

// NeedLeaderElection returns true: only the leader, which tracks members, renews.
func (b *beat) NeedLeaderElection() bool { return true }

// Start renews until ctx ends.
func (b *beat) Start(ctx context.Context) error {
	log, blind := ctrl.LoggerFrom(ctx).WithName("beat"), true
	ticker := b.clock.NewTicker(b.every)
	defer ticker.Stop()
	for {
		if err := b.renew(ctx); err != nil && ctx.Err() == nil {
			log.V(1).Info("Could not renew the hub's Lease", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		before := blind
		blind = b.tracker.Blind(b.clock.Now())
		state, value := "Sees", 0.0
		if blind {
			state, value = "Blind", 1
		}
		b.meters.blind.Set(value)
		if before != blind {
			log.Info("Changed whether the hub sees its own renewals", "state", state)
		}
	}
}

func (b *beat) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.every)
	defer cancel()
	lease := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1",
		"kind":       "Lease",
		"metadata": map[string]any{
			"name": fleetv1alpha1.HubLease, "namespace": fleetv1alpha1.SystemNamespace,
			"labels": map[string]any{keys.FleetCluster: hubOwner},
		},
		"spec": map[string]any{
			"holderIdentity": b.identity,
			"renewTime":      metav1.NewMicroTime(b.clock.Now()).UTC().Format(metav1.RFC3339Micro),
		},
	}}
	err := b.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(lease), client.FieldOwner(link.HubManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply the hub's Lease: %w", err)
	}
	return nil
}

// listener forwards renewals from the watch on Leases to the tracker, and enqueues clusters whose liveness changed or whose Lease is gone.
// All Leases come through one watch, in order.
type listener struct {
	tracker *tracker
	clock   clock.PassiveClock
}

// Create doesn't count as a renewal, since a hub that starts can't know how old the Leases are.
func (l *listener) Create(context.Context, event.CreateEvent, queue) {}

// Update forwards a renewal to the tracker.
func (l *listener) Update(_ context.Context, e event.UpdateEvent, q queue) {
	before, after := e.ObjectOld.(*coordinationv1.Lease), e.ObjectNew.(*coordinationv1.Lease)
	if after.Spec.RenewTime == nil || (before.Spec.RenewTime != nil && before.Spec.RenewTime.Equal(after.Spec.RenewTime)) {
		return
	}
	cluster, own := ownerOf(after)
	switch {
	case own:
		for _, changed := range l.tracker.Own(l.clock.Now()) {
			q.Add(request(changed))
		}
	case cluster != "" && l.tracker.Renewed(cluster, l.clock.Now()):
		q.Add(request(cluster))
	}
}

// Delete enqueues the cluster, whose reconcile creates the Lease again.
func (l *listener) Delete(_ context.Context, e event.DeleteEvent, q queue) {
	if cluster, own := ownerOf(e.Object); cluster != "" && !own {
		q.Add(request(cluster))
	}
}

// Generic is never called.
func (l *listener) Generic(context.Context, event.GenericEvent, queue) {}

// ownerOf returns the cluster of a Lease. It uses the namespace, because every writer of the Lease can change its labels.
func ownerOf(lease client.Object) (cluster string, own bool) {
	if lease.GetNamespace() == fleetv1alpha1.SystemNamespace && lease.GetName() == fleetv1alpha1.HubLease {
		return "", true
	}
	cluster, ok := strings.CutPrefix(lease.GetNamespace(), fleetv1alpha1.Namespace(""))
	if !ok || lease.GetName() != fleetv1alpha1.MemberLease {
		return "", false
	}
	return cluster, false
}

// trigger enqueues a request without a watch.
type trigger struct {
	mu    sync.Mutex
	queue queue
}

// Start stores the controller's queue. It makes trigger a source.
func (b *trigger) Start(_ context.Context, q queue) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = q
	return nil
}

// fire enqueues a request. Before the controller has started it does nothing, because all clusters are enqueued at the start.
func (b *trigger) fire(cluster string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue != nil {
		b.queue.Add(request(cluster))
	}
}
