package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func lease(namespace, name string, renewed int64) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if renewed > 0 {
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(renewed, 0)}
	}
	return l
}

func newQueue(t *testing.T) queue {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// drained returns the clusters in a queue.
func drained(q queue) []string {
	var out []string
	for q.Len() > 0 {
		item, _ := q.Get()
		q.Done(item)
		out = append(out, item.Name)
	}
	return out
}

func TestListener(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(noon)
	tracker := newTracker(tolerance)
	l, q := &listener{tracker: tracker, clock: clk}, newQueue(t)
	liveness := func() liveness { return tracker.Liveness("east", heartbeat(), livenessUnknown, clk.Now()) }
	liveness()

	l.Create(t.Context(), event.CreateEvent{Object: lease("fleet-east", "member", 1)}, q)
	require.Equal(t, livenessUnknown, liveness(), "a Lease that existed before does not count as a renewal")
	l.Update(t.Context(), event.UpdateEvent{ObjectOld: lease("fleet-east", "member", 0), ObjectNew: lease("fleet-east", "member", 0)}, q)
	l.Update(t.Context(), event.UpdateEvent{ObjectOld: lease("fleet-east", "member", 1), ObjectNew: lease("fleet-east", "member", 1)}, q)
	l.Update(t.Context(), event.UpdateEvent{ObjectOld: lease("fleet-east", "other", 1), ObjectNew: lease("fleet-east", "other", 2)}, q)
	require.Equal(t, livenessUnknown, liveness(), "a resync or another Lease is not a renewal")
	require.Empty(t, drained(q))

	l.Update(t.Context(), event.UpdateEvent{ObjectOld: lease("fleet-east", "member", 2), ObjectNew: lease("fleet-east", "member", 1)}, q)
	require.Equal(t, livenessFresh, liveness(), "a renewal counts, whatever time the member wrote")
	require.Equal(t, []string{"east"}, drained(q))

	for i := range 20 {
		clk.SetTime(noon.Add(time.Duration(i) * beatEvery))
		l.Update(t.Context(), event.UpdateEvent{
			ObjectOld: lease("fleet-system", "hub", int64(i)), ObjectNew: lease("fleet-system", "hub", int64(i)+1),
		}, q)
	}
	require.Equal(t, livenessStale, liveness())
	require.Equal(t, []string{"east"}, drained(q), "a change of liveness enqueues the cluster")

	l.Delete(t.Context(), event.DeleteEvent{Object: lease("fleet-east", "member", 1)}, q)
	l.Delete(t.Context(), event.DeleteEvent{Object: lease("fleet-system", "hub", 1)}, q)
	require.Equal(t, []string{"east"}, drained(q), "a Lease that was deleted is created again")
}

func TestTriggerFiresOnceTheControllerHasStarted(t *testing.T) {
	t.Parallel()
	b, q := &trigger{}, newQueue(t)
	b.fire("early")
	require.NoError(t, b.Start(t.Context(), q))
	b.fire("east")
	require.Equal(t, []string{"east"}, drained(q))
}
