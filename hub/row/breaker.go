package row

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

const (
	// breakerWindow is the time over which withdrawals are counted.
	breakerWindow = time.Minute
	// breakerFloor and breakerShare limit the withdrawals in a window: the floor, or a 20th (5 %) of the cluster's rows.
	breakerFloor = 10
	breakerShare = 20
	// breakerOpen is for how long withdrawals are not limited after an administrator has allowed them.
	breakerOpen = 10 * time.Minute
)

// breaker counts withdrawals by cluster. That it has tripped is stored in the MemberCluster, so that it survives a restart of the
// hub; the counts are not, so that a restart may allow another window.
type breaker struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	by    map[string]*window
}

type window struct {
	withdrawn []time.Time
	tripped   bool
	openUntil time.Time
}

func newBreaker(c clock.PassiveClock) *breaker { return &breaker{clock: c, by: map[string]*window{}} }

// take counts a withdrawal in a cluster of that many rows. paused says whether the MemberCluster has the annotation. It returns
// whether the row may be withdrawn, and whether to set the annotation.
func (b *breaker) take(cluster string, rows int, paused bool) (ok, trip bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	w := b.by[cluster]
	if w == nil {
		w = &window{}
		b.by[cluster] = w
	}
	if paused {
		w.tripped = true
		return false, false
	}
	if w.tripped { // The annotation was removed: there is no limit for a while.
		*w = window{openUntil: now.Add(breakerOpen)}
	}
	if now.Before(w.openUntil) {
		return true, false
	}
	w.withdrawn = slices.DeleteFunc(w.withdrawn, func(t time.Time) bool { return now.Sub(t) >= breakerWindow })
	if len(w.withdrawn) >= max(breakerFloor, rows/breakerShare) {
		return false, true
	}
	w.withdrawn = append(w.withdrawn, now)
	return true, false
}

// allow consults the breaker, and annotates the MemberCluster when it trips. A cluster that leaves has no limit: its
// administrator has decided on all rows.
func (s *Store) allow(ctx context.Context, mc *fleetv1alpha1.MemberCluster) error {
	cluster := mc.Name
	if !mc.DeletionTimestamp.IsZero() {
		return nil
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := s.client.List(ctx, rows, client.InNamespace(fleetv1alpha1.Namespace(cluster)), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("count rows of %s: %w", cluster, err)
	}
	_, paused := mc.Annotations[keys.FleetWithdrawalsPaused]
	ok, trip := s.breaker.take(cluster, len(rows.Items), paused)
	if trip {
		marked := mc.DeepCopy()
		if marked.Annotations == nil {
			marked.Annotations = map[string]string{}
		}
		marked.Annotations[keys.FleetWithdrawalsPaused] = "too many rows withdrawn within a minute"
		if err := s.client.Patch(ctx, marked, client.MergeFrom(mc)); err != nil {
			return fmt.Errorf("pause withdrawals of %s: %w", cluster, err)
		}
		ctrl.LoggerFrom(ctx).Info("Paused withdrawals", "cluster", cluster, "count", len(rows.Items))
	}
	if !ok {
		return fmt.Errorf("%w: many objects would be withdrawn from cluster %s at once; if that is meant, run "+
			"kubectl annotate membercluster %s %s-", ErrPaused, cluster, cluster, keys.FleetWithdrawalsPaused)
	}
	return nil
}
