package cluster

import (
	"sync"
	"time"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// liveness says whether a member is alive.
type liveness string

// Values of Liveness.
const (
	// livenessUnknown means that no renewal was ever seen.
	livenessUnknown liveness = "Unknown"
	// livenessFresh means that renewals are seen.
	livenessFresh liveness = "Fresh"
	// livenessStale means that no renewal was seen for failAfterSeconds, or that renewals have not yet been seen for recoverAfterSeconds since.
	livenessStale liveness = "Stale"
)

// tracker decides whether members are alive, based on when this process saw renewals of their Leases. It never reads the time in a Lease, so
// the clocks of other machines don't matter.
//
// The time without renewals is measured in watched time, which advances only while the hub sees its own renewals. The hub's Lease comes
// through the same watch as the members' Leases, so seeing it proves that everything before it was seen as well. Watched time therefore
// advances from one own renewal to the next, but not across a gap of more than the tolerance. The hub knows nothing about the time in which
// it was cut off, paused or restarted, so no member becomes stale because of it.
//
// For example, with a tolerance of 6 s and own renewals at 0 s, 3 s, 6 s, 600 s and 603 s, watched time is 0, 3, 6, 6 and 9: a member that
// renewed at 5 s has been without renewal for 4 s at the end, not for 598.
//
// Time is an argument and must be monotonic. A tracker is safe for concurrent use.
type tracker struct {
	tolerance time.Duration

	mu      sync.Mutex
	watched time.Duration
	own     time.Time
	members map[string]*member
}

type member struct {
	// started is set by the first call of Tracker.Liveness.
	started  bool
	liveness liveness
	lease    time.Duration
	fail     time.Duration
	recover  time.Duration
	// seen is the watched time of the last renewal, or the start of the time without renewals.
	seen time.Duration
	// run is the watched time since which a stale member has been renewing without a gap. renewing says whether it is.
	run      time.Duration
	renewing bool
}

// newTracker returns a tracker that treats a gap of more than tolerance between two own renewals as a fault of the hub.
func newTracker(tolerance time.Duration) *tracker {
	return &tracker{tolerance: tolerance, members: map[string]*member{}}
}

// liveness returns the liveness of a cluster according to the given times. The first call for a cluster takes the previous liveness from an
// earlier process, so that a restart changes nothing. The time without renewals of a fresh member then counts from now.
func (t *tracker) Liveness(cluster string, h fleetv1alpha1.Heartbeat, previous liveness, now time.Time) liveness {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.member(cluster)
	m.lease = time.Duration(h.LeaseSeconds) * time.Second
	m.fail = time.Duration(h.FailAfterSeconds) * time.Second
	m.recover = time.Duration(h.RecoverAfterSeconds) * time.Second
	if !m.started {
		m.started = true
		if previous != livenessUnknown {
			m.liveness = previous
			m.seen = t.at(now)
		}
	}
	return m.liveness
}

// Renewed is called when a renewal of the cluster's Lease was seen. It returns whether the liveness changed: a member that was never seen
// before becomes fresh immediately.
func (t *tracker) Renewed(cluster string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, at := t.member(cluster), t.at(now)
	switch {
	case m.liveness == livenessStale && (!m.renewing || at-m.seen > m.lease):
		m.run, m.renewing = at, true
	case m.liveness == livenessUnknown && m.started:
		m.liveness = livenessFresh
		m.seen = at
		return true
	}
	m.seen = at
	return false
}

// Own is called when a renewal of the hub's own Lease was seen. It returns the clusters whose liveness changed. Only this makes a member
// stale, or fresh again.
func (t *tracker) Own(now time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gap := now.Sub(t.own); !t.own.IsZero() && gap <= t.tolerance {
		t.watched += gap
	}
	t.own = now
	var changed []string
	for name, m := range t.members {
		if m.advance(t.watched) {
			changed = append(changed, name)
		}
	}
	return changed
}

// advance computes the liveness at a watched time and returns whether it changed.
func (m *member) advance(watched time.Duration) bool {
	silence := watched - m.seen
	switch {
	case !m.started:
	case m.liveness == livenessFresh && silence >= m.fail:
		m.liveness, m.renewing = livenessStale, false
		return true
	case m.liveness == livenessStale && silence > m.lease:
		m.renewing = false
	case m.liveness == livenessStale && m.renewing && watched-m.run >= m.recover:
		m.liveness = livenessFresh
		return true
	}
	return false
}

// Blind reports whether the hub has not seen its own renewal for longer than the tolerance, or never. Nothing changes while that is so.
func (t *tracker) Blind(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own.IsZero() || now.Sub(t.own) > t.tolerance
}

// Forget drops a cluster.
func (t *tracker) Forget(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.members, cluster)
}

// at returns the watched time of a moment after the last own renewal.
func (t *tracker) at(now time.Time) time.Duration {
	if since := now.Sub(t.own); !t.own.IsZero() && since <= t.tolerance {
		return t.watched + since
	}
	return t.watched
}

func (t *tracker) member(cluster string) *member {
	m := t.members[cluster]
	if m == nil {
		m = &member{liveness: livenessUnknown}
		t.members[cluster] = m
	}
	return m
}
