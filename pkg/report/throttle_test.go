package report_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-io/flotilla/pkg/report"
)

func TestThrottle(t *testing.T) {
	t.Parallel()
	web, db := types.NamespacedName{Name: "web"}, types.NamespacedName{Name: "db"}
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	const ms = time.Millisecond

	t.Run("the first write does not wait, later ones for a second", func(t *testing.T) {
		t.Parallel()
		var throttle report.Throttle
		require.Zero(t, throttle.Wait(web, at(0)))
		throttle.Wrote(web, at(0))
		require.Equal(t, 700*ms, throttle.Wait(web, at(300*ms)))
		require.Zero(t, throttle.Wait(web, at(1000*ms)))
		require.Zero(t, throttle.Wait(db, at(300*ms)), "another object does not wait")
		throttle.Forget(web)
		require.Zero(t, throttle.Wait(web, at(300*ms)))
	})
	t.Run("changes are collected from the first one on", func(t *testing.T) {
		t.Parallel()
		throttle := report.Throttle{Interval: 2 * time.Second, Collect: 3 * time.Second}
		require.Equal(t, 3000*ms, throttle.Wait(web, at(0)))
		require.Equal(t, 1000*ms, throttle.Wait(web, at(2000*ms)))
		require.Zero(t, throttle.Wait(web, at(3000*ms)))
		throttle.Wrote(web, at(3000*ms))
		require.Equal(t, 3000*ms, throttle.Wait(web, at(3500*ms)), "the next ones are collected again")
		throttle.Settled(web)
		require.Equal(t, 3000*ms, throttle.Wait(web, at(60*time.Second)), "a change that was taken back does not count")
	})
	t.Run("a write that did not wait counts for the interval", func(t *testing.T) {
		t.Parallel()
		throttle := report.Throttle{Interval: 10 * time.Second}
		throttle.Wrote(web, at(0))
		throttle.Settled(web)
		require.Equal(t, 9*time.Second, throttle.Wait(web, at(time.Second)))
	})
}
