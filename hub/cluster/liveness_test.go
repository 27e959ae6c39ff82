package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Times in the tests: the API's defaults, and a hub that renews its own Lease every 3 seconds.
const (
	beatEvery = 3 * time.Second
	tolerance = 2 * beatEvery
	failAfter = 45 * time.Second
)

func heartbeat() fleetv1alpha1.Heartbeat {
	return fleetv1alpha1.Heartbeat{LeaseSeconds: 15, FailAfterSeconds: 45, RecoverAfterSeconds: 60}
}

// fleet simulates a hub and its members second by second.
type fleet struct {
	tracker *tracker
	now     time.Time
	members int
	states  map[string]liveness
	changes map[string]int
}

func newFleet(members int) *fleet {
	f := &fleet{
		tracker: newTracker(tolerance), now: time.Unix(0, 0), members: members,
		states: map[string]liveness{}, changes: map[string]int{},
	}
	for i := range members {
		f.tracker.Liveness(name(i), heartbeat(), livenessUnknown, f.now)
	}
	f.play(10*time.Second, nil, false)
	clear(f.changes)
	return f
}

func name(i int) string { return fmt.Sprintf("m%03d", i) }

// play advances the time. Members renew every 5 seconds, except those in dark. During a fault of the hub it sees no renewals, not even its
// own.
func (f *fleet) play(d time.Duration, dark func(int) bool, fault bool) {
	for range int(d / time.Second) {
		f.now = f.now.Add(time.Second)
		second := int(f.now.Unix())
		for i := range f.members {
			if !fault && (dark == nil || !dark(i)) && second%5 == i%5 {
				f.tracker.Renewed(name(i), f.now)
			}
		}
		if !fault && second%3 == 0 {
			f.tracker.Own(f.now)
		}
		for i := range f.members {
			v := f.tracker.Liveness(name(i), heartbeat(), livenessUnknown, f.now)
			if old, ok := f.states[name(i)]; ok && old != v {
				f.changes[name(i)]++
			}
			f.states[name(i)] = v
		}
	}
}

func all(int) bool { return true }

func TestTracker(t *testing.T) {
	t.Parallel()
	t.Run("a member is fresh at its first renewal", func(t *testing.T) {
		t.Parallel()
		tr := newTracker(tolerance)
		now := time.Unix(0, 0)
		require.Equal(t, livenessUnknown, tr.Liveness("east", heartbeat(), livenessUnknown, now))
		require.True(t, tr.Renewed("east", now))
		require.Equal(t, livenessFresh, tr.Liveness("east", heartbeat(), livenessUnknown, now))
	})
	t.Run("a member that was never seen stays unknown", func(t *testing.T) {
		t.Parallel()
		f := newFleet(0)
		f.members = 1
		f.play(time.Hour, all, false)
		require.Equal(t, livenessUnknown, f.states[name(0)])
	})
	t.Run("a member without renewals is stale after failAfter and one own renewal at most", func(t *testing.T) {
		t.Parallel()
		f := newFleet(1)
		f.play(failAfter+beatEvery, all, false)
		require.Equal(t, livenessStale, f.states[name(0)])
	})
	t.Run("a stale member is fresh after it renewed for recoverAfter, not before", func(t *testing.T) {
		t.Parallel()
		f := newFleet(1)
		f.play(2*failAfter, all, false)
		f.play(55*time.Second, nil, false)
		require.Equal(t, livenessStale, f.states[name(0)])
		f.play(15*time.Second, nil, false)
		require.Equal(t, livenessFresh, f.states[name(0)])
	})
	t.Run("a gap longer than the lease restarts the time to recover", func(t *testing.T) {
		t.Parallel()
		f := newFleet(1)
		f.play(2*failAfter, all, false)
		f.play(30*time.Second, nil, false)
		f.play(20*time.Second, all, false)
		f.play(50*time.Second, nil, false)
		require.Equal(t, livenessStale, f.states[name(0)])
	})
	t.Run("after a restart the previous liveness holds and the time without renewals counts from the restart", func(t *testing.T) {
		t.Parallel()
		f := newFleet(0)
		require.Equal(t, livenessFresh, f.tracker.Liveness("east", heartbeat(), livenessFresh, f.now))
		require.Equal(t, livenessStale, f.tracker.Liveness("west", heartbeat(), livenessStale, f.now))
		f.play(failAfter-beatEvery, nil, false)
		require.Equal(t, livenessFresh, f.tracker.Liveness("east", heartbeat(), livenessUnknown, f.now))
		f.play(2*beatEvery, nil, false)
		require.Equal(t, livenessStale, f.tracker.Liveness("east", heartbeat(), livenessUnknown, f.now))
	})
	t.Run("renewals seen before the first call of Liveness do not make a stale member fresh", func(t *testing.T) {
		t.Parallel()
		f := newFleet(0)
		require.False(t, f.tracker.Renewed("east", f.now))
		require.Equal(t, livenessStale, f.tracker.Liveness("east", heartbeat(), livenessStale, f.now))
	})
	t.Run("a forgotten member is unknown again", func(t *testing.T) {
		t.Parallel()
		f := newFleet(1)
		f.tracker.Forget(name(0))
		require.Equal(t, livenessUnknown, f.tracker.Liveness(name(0), heartbeat(), livenessUnknown, f.now))
	})
	t.Run("the hub is blind until it sees its own renewals, and when it no longer does", func(t *testing.T) {
		t.Parallel()
		tr := newTracker(tolerance)
		now := time.Unix(0, 0)
		require.True(t, tr.Blind(now))
		tr.Own(now)
		require.False(t, tr.Blind(now.Add(tolerance)))
		require.True(t, tr.Blind(now.Add(tolerance+1)))
	})
}

// I15: an outage of a member that is shorter than failAfter changes nothing.
func TestI15ShortOutageChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(rapid.IntRange(1, 10).Draw(t, "members"))
		for range rapid.IntRange(1, 5).Draw(t, "outages") {
			off := rapid.IntRange(0, int(failAfter/time.Second)-5).Draw(t, "seconds off")
			f.play(time.Duration(off)*time.Second, all, false)
			f.play(10*time.Second, nil, false)
		}
		require.Empty(t, f.changes)
	})
}

// I16: an outage of a member causes at most two changes of its liveness.
func TestI16NoFlapping(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(3)
		dark := func(i int) bool { return i > 0 }
		f.play(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds off"))*time.Second, dark, false)
		f.play(3*time.Minute, nil, false)
		require.Zero(t, f.changes[name(0)])
		for i := range 3 {
			require.LessOrEqual(t, f.changes[name(i)], 2)
			require.Equal(t, livenessFresh, f.states[name(i)])
		}
	})
}

// I16: a member that comes and goes is not fresh in between, until it has renewed for recoverAfterSeconds without a gap.
func TestI16AMemberThatComesAndGoesStaysStale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f, h := newFleet(1), heartbeat()
		f.play(time.Duration(h.FailAfterSeconds+h.LeaseSeconds)*time.Second, all, false)
		for range rapid.IntRange(1, 5).Draw(t, "times") {
			f.play(time.Duration(rapid.Int32Range(1, h.RecoverAfterSeconds-2*h.LeaseSeconds).Draw(t, "seconds on"))*time.Second, nil, false)
			f.play(time.Duration(rapid.Int32Range(2*h.LeaseSeconds, 300).Draw(t, "seconds off"))*time.Second, all, false)
		}
		require.Equal(t, 1, f.changes[name(0)])
		require.Equal(t, livenessStale, f.states[name(0)])
	})
}

// I18: while the hub sees no renewals, not even its own, no member becomes stale. None becomes stale afterwards either.
func TestI18FaultOfTheHubMakesNoMemberStale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(rapid.IntRange(1, 10).Draw(t, "members"))
		for range rapid.IntRange(1, 4).Draw(t, "faults") {
			f.play(time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds of fault"))*time.Second, nil, true)
			f.play(time.Duration(rapid.IntRange(10, 60).Draw(t, "seconds between"))*time.Second, nil, false)
		}
		require.Empty(t, f.changes)
	})
}
