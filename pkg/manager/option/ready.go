package option

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// syncPatience is how long a replica without synced caches stays unready. It is bounded because a cache may need this very replica: objects that
// are stored in another version are converted by a replica that is ready.
const syncPatience = time.Minute

// caches is ready when the caches of a manager are synced. A replica that becomes ready earlier would hold up requests until then, while the
// replica that it replaces has already ended. The manager starts this runnable after its caches.
type caches struct {
	clock  clock.PassiveClock
	began  time.Time
	synced atomic.Bool
}

var (
	_ manager.Runnable               = &caches{}
	_ manager.LeaderElectionRunnable = &caches{}
)

func newCaches(c clock.PassiveClock) *caches { return &caches{clock: c, began: c.Now()} }

// addTo adds c to a manager, as a check of /readyz.
func (c *caches) addTo(mgr ctrl.Manager) error {
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("follow the caches: %w", err)
	}
	return mgr.AddReadyzCheck("caches", c.check)
}

// Start implements manager.Runnable.
func (c *caches) Start(context.Context) error {
	c.synced.Store(true)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: it runs in every replica.
func (c *caches) NeedLeaderElection() bool { return false }

// errNotSynced is why a replica isn't ready.
var errNotSynced = errors.New("the caches are not synced yet")

// check is a healthz.Checker.
func (c *caches) check(*http.Request) error {
	if c.synced.Load() || c.clock.Since(c.began) >= syncPatience {
		return nil
	}
	return errNotSynced
}
