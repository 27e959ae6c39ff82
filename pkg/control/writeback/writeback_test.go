package writeback

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTwoWritersWhoDoNotAgreeWriteLessAndLess(t *testing.T) {
	t.Parallel()
	var p Pace
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	writes := 0
	for now := start; now.Before(start.Add(time.Hour)); now = now.Add(100 * time.Millisecond) { // The other writer is that fast.
		if p.Wait("a", "ours", now) == 0 {
			p.Wrote("a", "ours", now)
			writes++
		}
	}
	require.Equal(t, 66, writes)
}

func TestWaits(t *testing.T) {
	t.Parallel()
	var p Pace
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Zero(t, p.Wrote("a", "one", now))
	require.Zero(t, p.Wait("a", "one", now), "the first write-back is immediate")
	require.Equal(t, Min, p.Wrote("a", "one", now))
	require.Equal(t, Min, p.Wait("a", "one", now))
	require.Zero(t, p.Wait("a", "two", now), "a different change is not a write-back")
	require.Zero(t, p.Wait("b", "one", now), "nor is one of another name")
	require.Equal(t, Min/2, p.Wait("a", "one", now.Add(Min/2)))
	require.Equal(t, 2*Min, p.Wrote("a", "one", now.Add(Min)))
	require.Zero(t, p.Wrote("a", "one", now.Add(2*Max+Min)), "after a quiet period")
	require.Zero(t, p.Wrote("a", "two", now))
	require.Zero(t, p.Wrote("a", "one", now), "alternating changes are not written back")
}
