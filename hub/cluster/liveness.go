package cluster

import (
	"sync"
	"time"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Verdict is what the tracker thinks of one member.
type Verdict string

// Verdicts.
const (
	// VerdictUnknown: no renewal was ever seen.
	VerdictUnknown Verdict = "Unknown"
	// VerdictFresh: renewals are seen.
	VerdictFresh Verdict = "Fresh"
	// VerdictStale: none was seen for failAfterSeconds, or not yet for recoverAfterSeconds since.
	VerdictStale Verdict = "Stale"
)

// Tracker judges members by when this process saw renewals of their Leases. It never reads the time in a Lease: what
// clocks of other machines say plays no part.
//
// Silence is measured in watched time, which passes only while the hub sees its own renewals. The hub's Lease comes
// through the same watch as the members'; seeing one proves that everything before it was seen as well. So watched time
// advances from one own renewal to the next, and stands still over a gap of more than the tolerance: a hub that was cut
// off, paused or restarted knows nothing of that time and holds it against nobody.
//
// For example, with a tolerance of 6 s and own renewals at 0 s, 3 s, 6 s, 600 s and 603 s, watched time is 0, 3, 6, 6
// and 9: a member that renewed at 5 s has been silent for 4 s at the end, not for 598.
//
// It is pure but for its own state: time comes in as an argument and must be monotonic. Safe for concurrent use.
type Tracker struct {
	tolerance time.Duration

	mu      sync.Mutex
	watched time.Duration
	own     time.Time
	members map[string]*member
}

type member struct {
	judged  bool
	verdict Verdict
	lease   time.Duration
	fail    time.Duration
	recover time.Duration
	// seen is the watched time of the last renewal, or of the moment from which silence counts.
	seen time.Duration
	// run is the watched time at which a stale member began to renew without a gap; renewing says whether it does.
	run      time.Duration
	renewing bool
}

// NewTracker returns a Tracker to which a gap between two own renewals of more than tolerance is a fault of the hub.
func NewTracker(tolerance time.Duration) *Tracker {
	return &Tracker{tolerance: tolerance, members: map[string]*member{}}
}

// Judge returns the verdict on a cluster by the given times. The first call for a cluster takes former as the verdict
// that an earlier process came to, so that a restart changes nothing: the silence of a fresh member counts from now.
func (t *Tracker) Judge(cluster string, h fleetv1alpha1.Heartbeat, former Verdict, now time.Time) Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.member(cluster)
	m.lease = time.Duration(h.LeaseSeconds) * time.Second
	m.fail = time.Duration(h.FailAfterSeconds) * time.Second
	m.recover = time.Duration(h.RecoverAfterSeconds) * time.Second
	if !m.judged {
		m.judged = true
		if former != VerdictUnknown {
			m.verdict = former
			m.seen = t.at(now)
		}
	}
	return m.verdict
}

// Renewed says that a renewal of the cluster's Lease was seen. It returns whether the verdict changed: a member that was
// never seen before is fresh at once.
func (t *Tracker) Renewed(cluster string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, at := t.member(cluster), t.at(now)
	switch {
	case m.verdict == VerdictStale && (!m.renewing || at-m.seen > m.lease):
		m.run, m.renewing = at, true
	case m.verdict == VerdictUnknown && m.judged:
		m.verdict = VerdictFresh
		m.seen = at
		return true
	}
	m.seen = at
	return false
}

// Own says that a renewal of the hub's own Lease was seen. It returns the clusters whose verdict changed: this is the
// only moment at which a member becomes stale, or fresh again.
func (t *Tracker) Own(now time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gap := now.Sub(t.own); !t.own.IsZero() && gap <= t.tolerance {
		t.watched += gap
	}
	t.own = now
	var changed []string
	for name, m := range t.members {
		if m.pass(t.watched) {
			changed = append(changed, name)
		}
	}
	return changed
}

// pass brings the verdict up to a watched time and returns whether it changed.
func (m *member) pass(watched time.Duration) bool {
	silence := watched - m.seen
	switch {
	case !m.judged:
	case m.verdict == VerdictFresh && silence >= m.fail:
		m.verdict, m.renewing = VerdictStale, false
		return true
	case m.verdict == VerdictStale && silence > m.lease:
		m.renewing = false
	case m.verdict == VerdictStale && m.renewing && watched-m.run >= m.recover:
		m.verdict = VerdictFresh
		return true
	}
	return false
}

// Blind tells whether the hub has not seen its own renewal for longer than the tolerance, or never: it judges nobody.
func (t *Tracker) Blind(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own.IsZero() || now.Sub(t.own) > t.tolerance
}

// Forget drops what is known of a cluster.
func (t *Tracker) Forget(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.members, cluster)
}

// at is the watched time of a moment since the last own renewal.
func (t *Tracker) at(now time.Time) time.Duration {
	if since := now.Sub(t.own); !t.own.IsZero() && since <= t.tolerance {
		return t.watched + since
	}
	return t.watched
}

func (t *Tracker) member(cluster string) *member {
	m := t.members[cluster]
	if m == nil {
		m = &member{verdict: VerdictUnknown}
		t.members[cluster] = m
	}
	return m
}
