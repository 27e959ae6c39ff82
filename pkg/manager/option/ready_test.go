package option

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// unsynced is a cache that syncs when told to.
type unsynced struct {
	informertest.FakeInformers
	syncs chan struct{}
}

func (u *unsynced) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-u.syncs:
		return true
	case <-ctx.Done():
		return false
	}
}

func TestAttack34ReplicaIsNotReadyBeforeItsCachesAreSynced(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	u := &unsynced{syncs: make(chan struct{})}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) { return u, nil },
	})
	require.NoError(t, err)
	check := newCaches(clk)
	require.NoError(t, check.addTo(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	require.ErrorIs(t, check.check(&http.Request{}), errNotSynced)
	clk.Step(syncPatience - time.Millisecond)
	require.ErrorIs(t, check.check(&http.Request{}), errNotSynced)
	close(u.syncs)
	require.Eventually(t, func() bool { return check.check(&http.Request{}) == nil }, testtimeout.Scale(time.Minute), time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

func TestReplicaWhoseCachesNeedItIsReadyAfterAWhile(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	check := newCaches(clk)
	require.ErrorIs(t, check.check(&http.Request{}), errNotSynced)
	clk.Step(syncPatience)
	require.NoError(t, check.check(&http.Request{}))
}
