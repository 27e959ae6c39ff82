package nodelease

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestAllControllersAreWoken starts three controllers with one tracker, as the kinds of a member share it.
func TestAllControllersAreWoken(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(start)
	tracker := NewTracker(clock)
	informers := &informertest.FakeInformers{Scheme: scheme.Scheme}
	leases, err := informers.FakeInformerFor(t.Context(), &coordinationv1.Lease{})
	require.NoError(t, err)

	queues := make([]workqueue.TypedRateLimitingInterface[reconcile.Request], 3)
	for i := range queues {
		queues[i] = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queues[i].ShutDown()
		s := tracker.Source(informers, func(_ context.Context, node string) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: node}}}
		})
		require.NoError(t, s.Start(t.Context(), queues[i]))
		require.NoError(t, s.WaitForSync(t.Context()))
	}
	lengths := func() []int { return []int{queues[0].Len(), queues[1].Len(), queues[2].Len()} }
	drain := func() {
		for _, q := range queues {
			r, _ := q.Get()
			require.Equal(t, "node-1", r.Name)
			q.Done(r)
		}
	}

	first := lease(start)
	leases.Add(first)
	require.Equal(t, []int{1, 1, 1}, lengths(), "a daemon is alive")
	require.True(t, tracker.Live("node-1"))
	drain()

	clock.SetTime(start.Add(RenewInterval))
	second := lease(start.Add(RenewInterval))
	leases.Update(first, second)
	require.Equal(t, []int{0, 0, 0}, lengths(), "a renewal enqueues nothing")

	clock.SetTime(start.Add(time.Hour))
	third := lease(start.Add(time.Hour))
	leases.Update(second, third)
	require.Equal(t, []int{1, 1, 1}, lengths(), "a daemon is alive again")
	drain()

	leases.Delete(third)
	require.False(t, tracker.Live("node-1"))
	require.Equal(t, []int{0, 0, 0}, lengths())
	other := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-member"}}
	leases.Add(other)
	require.Equal(t, []int{0, 0, 0}, lengths(), "a Lease of another program enqueues nothing")
}
