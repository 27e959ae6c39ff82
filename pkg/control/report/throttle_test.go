package report_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-io/flotilla/pkg/control/report"
)

func TestThrottle(t *testing.T) {
	t.Parallel()
	web, db := types.NamespacedName{Name: "web"}, types.NamespacedName{Name: "db"}
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	const ms = time.Millisecond

	// wait returns how long a change that may wait has to wait.
	wait := func(r *report.Throttle, key types.NamespacedName, now time.Time) time.Duration {
		write, later := r.Due(key, true, true, now)
		require.Equal(t, later == 0, write)
		return later
	}
	// settle reverts a change.
	settle := func(r *report.Throttle, key types.NamespacedName) {
		write, later := r.Due(key, false, true, at(0))
		require.False(t, write)
		require.Zero(t, later)
	}

	t.Run("the first write is immediate, later ones wait a second", func(t *testing.T) {
		t.Parallel()
		var throttle report.Throttle
		require.Zero(t, wait(&throttle, web, at(0)))
		throttle.Wrote(web, at(0))
		require.Equal(t, 700*ms, wait(&throttle, web, at(300*ms)))
		require.Zero(t, wait(&throttle, web, at(1000*ms)))
		require.Zero(t, wait(&throttle, db, at(300*ms)), "another object doesn't wait")
		throttle.Forget(web)
		require.Zero(t, wait(&throttle, web, at(300*ms)))
	})
	t.Run("changes are collected from the first one on", func(t *testing.T) {
		t.Parallel()
		throttle := report.Throttle{Interval: 2 * time.Second, Collect: 3 * time.Second}
		require.Equal(t, 3000*ms, wait(&throttle, web, at(0)))
		require.Equal(t, 1000*ms, wait(&throttle, web, at(2000*ms)))
		require.Zero(t, wait(&throttle, web, at(3000*ms)))
		throttle.Wrote(web, at(3000*ms))
		require.Equal(t, 3000*ms, wait(&throttle, web, at(3500*ms)), "later ones are collected again")
		settle(&throttle, web)
		require.Equal(t, 3000*ms, wait(&throttle, web, at(60*time.Second)), "a change that was reverted doesn't count")
	})
	t.Run("the change with the shortest wait writes all of them", func(t *testing.T) {
		t.Parallel()
		throttle := report.Throttle{Interval: 2 * time.Second, Collect: 3 * time.Second}
		long := func(now time.Time) time.Duration {
			write, later := throttle.DueIn(web, true, 10*time.Second, now)
			require.Equal(t, later == 0, write)
			return later
		}
		require.Equal(t, 10000*ms, long(at(0)))
		require.Equal(t, 9000*ms, long(at(1000*ms)))
		require.Equal(t, 3000*ms, wait(&throttle, web, at(4000*ms)))
		require.Equal(t, 2000*ms, long(at(5000*ms)))
		require.Zero(t, long(at(7000*ms)))
		throttle.Wrote(web, at(7000*ms))
		require.Equal(t, 10000*ms, long(at(8000*ms)))
		require.Equal(t, 1100*ms, wait(&throttle, web, at(16900*ms)), "it doesn't extend the wait of the other")
	})
	t.Run("an immediate write starts a new interval", func(t *testing.T) {
		t.Parallel()
		throttle := report.Throttle{Interval: 10 * time.Second}
		throttle.Wrote(web, at(0))
		settle(&throttle, web)
		require.Equal(t, 9*time.Second, wait(&throttle, web, at(time.Second)))
	})
	t.Run("an urgent change is written at once", func(t *testing.T) {
		t.Parallel()
		throttle := report.Throttle{Interval: 10 * time.Second, Collect: 3 * time.Second}
		throttle.Wrote(web, at(0))
		write, later := throttle.Due(web, true, false, at(ms))
		require.True(t, write)
		require.Zero(t, later)
	})
}

func TestReworded(t *testing.T) {
	t.Parallel()
	type status struct {
		Replicas   int32              `json:"replicas"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}
	old := status{Replicas: 1, Conditions: []metav1.Condition{{Type: "Failed", Reason: "Refused", Message: "by request 1"}}}
	refused := errors.New("refused")
	for name, tt := range map[string]struct {
		change func(*status)
		err    error
		want   bool
	}{
		"another message":                  {func(s *status) { s.Conditions[0].Message = "by request 2" }, refused, true},
		"another message without an error": {func(s *status) { s.Conditions[0].Message = "by request 2" }, nil, false},
		"the same":                         {func(*status) {}, refused, false},
		"another reason":                   {func(s *status) { s.Conditions[0].Reason = "Quota" }, refused, false},
		"another number":                   {func(s *status) { s.Replicas = 2 }, refused, false},
		"another message and number":       {func(s *status) { s.Replicas, s.Conditions[0].Message = 2, "" }, refused, false},
		"a further condition":              {func(s *status) { s.Conditions = append(s.Conditions, metav1.Condition{Type: "Other"}) }, refused, false},
		"a removed condition":              {func(s *status) { s.Conditions = nil }, refused, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current := old
			current.Conditions = slices.Clone(old.Conditions)
			tt.change(&current)
			require.Equal(t, tt.want, report.Reworded(old, current, tt.err))
		})
	}
}
