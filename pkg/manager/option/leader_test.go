package option

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

var (
	own   = types.NamespacedName{Namespace: "ships", Name: "manager"}
	other = types.NamespacedName{Namespace: "kruise-system", Name: "kruise-manager"}
)

// world has our lock and the other's Lease.
type world struct {
	testing.TB
	leases coordinationv1client.LeasesGetter
	clock  *clocktesting.FakePassiveClock
	lock   *yielding
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	leases := fake.NewClientset().CoordinationV1()
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return &world{TB: tb, leases: leases, clock: clk, lock: &yielding{
		Interface: lease(leases, own, "we"), other: lease(leases, other, ""), clock: clk,
	}}
}

// renew makes the other manager hold its Lease; an empty holder releases it.
func (w *world) renew(holder string) {
	w.Helper()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: other.Name}}
	l.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: w.clock.Now()},
	}
	_, err := w.leases.Leases(other.Namespace).Update(w.Context(), l, metav1.UpdateOptions{})
	if err != nil {
		_, err = w.leases.Leases(other.Namespace).Create(w.Context(), l, metav1.CreateOptions{})
	}
	require.NoError(w, err)
}

func (w *world) wait(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// holder returns the holder of the lock as an elector sees it; "" if the lock is free or doesn't exist.
func (w *world) holder() string {
	w.Helper()
	r, _, err := w.lock.Get(w.Context())
	if err != nil {
		return ""
	}
	return r.HolderIdentity
}

// take acquires or renews the lock like an elector.
func (w *world) take() error {
	r := resourcelock.LeaderElectionRecord{HolderIdentity: w.lock.Identity(), LeaseDurationSeconds: 15}
	if _, _, err := w.lock.Interface.Get(w.Context()); err != nil {
		return w.lock.Create(w.Context(), r)
	}
	return w.lock.Update(w.Context(), r)
}

func TestWithoutAnotherManagerItIsTheLockOfOurLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Empty(t, w.holder())
	require.NoError(t, w.take())
	require.Equal(t, "we", w.holder())
	require.NoError(t, w.take(), "its Lease is renewed")
	require.Equal(t, "ships/manager", w.lock.Describe())
}

func TestNobodyLeadsBesideAnotherManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.renew("kruise-1")
	require.Equal(t, "kruise-1", w.holder())
	require.ErrorContains(t, w.take(), "kruise-1 leads with Lease kruise-system/kruise-manager")
	for range 3 {
		w.wait(10 * time.Second)
		w.renew("kruise-1")
		require.Equal(t, "kruise-1", w.holder(), "it renews its Lease")
	}
	w.wait(14 * time.Second)
	require.Equal(t, "kruise-1", w.holder())
	w.wait(time.Second)
	require.Empty(t, w.holder(), "it has not renewed its Lease for the duration of that")
	require.NoError(t, w.take())
	require.Equal(t, "we", w.holder())
}

func TestALeaseThatAnotherManagerLeftBehindIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.renew("kruise-1")
	w.wait(24 * time.Hour) // No clock is trusted: the Lease may have been renewed just now.
	require.Equal(t, "kruise-1", w.holder())
	w.wait(15 * time.Second)
	require.NoError(t, w.take())
	w.wait(time.Hour)
	require.NoError(t, w.take())
}

func TestAReleasedLeaseHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.renew("")
	require.NoError(t, w.take())
}

func TestALeaderCanNotRenewOnceAnotherManagerLeadsAndStillReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.take())
	w.renew("kruise-1")
	require.Error(t, w.take())
	require.Equal(t, "kruise-1", w.holder(), "the elector notices that it has lost")
	require.NoError(t, w.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
	r, _, err := w.lock.Interface.Get(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.HolderIdentity)
}

// TestYieldingLeavesTheConfigOfTheManagerAsItIs: a timeout in a manager's config would also end each of its watches.
func TestYieldingLeavesTheConfigOfTheManagerAsItIs(t *testing.T) {
	cfg := &rest.Config{Host: "https://cluster.test", UserAgent: "manager"}
	before := rest.CopyConfig(cfg)
	_, err := newLock(cfg, own, other, 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, before, cfg)
}
