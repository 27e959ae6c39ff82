package expect

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

const owner = types.UID("owner")

func child(name, version string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}
}

func terminating(name, version string) *metav1.ObjectMeta {
	c := child(name, version)
	c.DeletionTimestamp = &metav1.Time{}
	return c
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		write func(*Store)
		shown []metav1.Object
		want  int
	}{
		{
			name:  "nothing to wait for without a write",
			write: func(*Store) {},
		},
		{
			name:  "a created child that the cache lacks",
			write: func(s *Store) { s.Created(owner, child("a", "5")) },
			shown: []metav1.Object{child("b", "9")},
			want:  1,
		},
		{
			name:  "a created child that the cache shows",
			write: func(s *Store) { s.Created(owner, child("a", "5")) },
			shown: []metav1.Object{child("a", "5")},
		},
		{
			name:  "a written child in its old version",
			write: func(s *Store) { s.Written(owner, child("a", "10")) },
			shown: []metav1.Object{child("a", "9")},
			want:  1,
		},
		{
			name:  "a written child in a later version, as versions compare as numbers",
			write: func(s *Store) { s.Written(owner, child("a", "9")) },
			shown: []metav1.Object{child("a", "10")},
		},
		{
			name:  "a written child that is gone",
			write: func(s *Store) { s.Written(owner, child("a", "9")) },
		},
		{
			name:  "a deleted child that the cache shows as running",
			write: func(s *Store) { s.Deleted(owner, child("a", "9")) },
			shown: []metav1.Object{child("a", "9")},
			want:  1,
		},
		{
			name:  "a deleted child that the cache shows as terminating",
			write: func(s *Store) { s.Deleted(owner, child("a", "9")) },
			shown: []metav1.Object{terminating("a", "10")},
		},
		{
			name: "a child that was created, written and deleted before the cache showed it may be absent",
			write: func(s *Store) {
				s.Created(owner, child("a", "5"))
				s.Written(owner, child("a", "6"))
				s.Deleted(owner, child("a", "6"))
			},
		},
		{
			name: "a child that was created and then written must be shown as written",
			write: func(s *Store) {
				s.Created(owner, child("a", "5"))
				s.Written(owner, child("a", "6"))
			},
			shown: []metav1.Object{child("a", "5")},
			want:  1,
		},
		{
			name:  "writes for another owner are ignored",
			write: func(s *Store) { s.Created("other", child("a", "5")) },
		},
		{
			name: "forgotten writes are ignored",
			write: func(s *Store) {
				s.Created(owner, child("a", "5"))
				s.Forget(owner)
			},
		},
		{
			name:  "versions that aren't numbers must be equal",
			write: func(s *Store) { s.Written(owner, child("a", "x2")) },
			shown: []metav1.Object{child("a", "x3")},
			want:  1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := New("Test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), 0)
			tt.write(s)
			got := s.Check(owner, slices.Values(tt.shown))
			require.Equal(t, tt.want, got.Count)
			require.False(t, got.Overdue)
			if tt.want > 0 {
				require.Equal(t, DefaultTimeout, got.Left)
				require.Contains(t, got.String(), "a")
			}
		})
	}
}

func TestCheckIsOverdueAfterTheTimeoutAndCountsIt(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s := New("Overdue", c, time.Minute)
	before := testutil.ToFloat64(timeouts.WithLabelValues("Overdue")) // The test may run more than once in a process.
	s.Created(owner, child("a", "5"))
	none := slices.Values([]metav1.Object(nil))

	c.SetTime(time.Unix(1059, 0))
	require.Equal(t, time.Second, s.Check(owner, none).Left)
	require.InDelta(t, before, testutil.ToFloat64(timeouts.WithLabelValues("Overdue")), 0)

	c.SetTime(time.Unix(1060, 0))
	require.True(t, s.Check(owner, none).Overdue)
	require.InDelta(t, before+1, testutil.ToFloat64(timeouts.WithLabelValues("Overdue")), 0)

	s.Renew(owner, none)
	require.Zero(t, s.Check(owner, none), "the API server has no such child, so there is nothing to wait for")
}

func TestRenewKeepsExpectationsOfAStaleCache(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s := New("Test", c, time.Minute)
	s.Created(owner, child("a", "5"))
	s.Created(owner, child("b", "6"))
	none := slices.Values([]metav1.Object(nil))
	c.SetTime(time.Unix(1060, 0))
	s.Renew(owner, slices.Values([]metav1.Object{child("b", "6")}))
	got := s.Check(owner, none)
	require.Equal(t, Wait{Count: 1, Example: "b", Left: time.Minute}, got)
}

func TestCheckDropsMetExpectations(t *testing.T) {
	t.Parallel()
	s := New("Test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), 0)
	s.Created(owner, child("a", "5"))
	require.Zero(t, s.Check(owner, slices.Values([]metav1.Object{child("a", "5")})))
	require.Empty(t, s.owners)
	require.Zero(t, s.Check(owner, slices.Values([]metav1.Object(nil))), "a child that was seen may disappear")
}

func TestFresh(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tc := range []struct {
		name string
		// after is how long ago the write was, live is the object in the API server.
		after time.Duration
		live  error
		shown string // the version that the cache shows
		want  error
		reads int
		left  int // remaining expectations
	}{
		{name: "planned from a cache that shows all writes", shown: "2"},
		{name: "waits for a cache that lags", shown: "1", want: NotYetError{Wait{Count: 1, Example: "web-a", Left: time.Minute}}, left: 1},
		{name: "goes on without a cache that lags for too long, but expects its writes", after: time.Minute, shown: "1", reads: 1, left: 1},
		{name: "an error of the API server", after: time.Minute, shown: "1", live: boom, want: boom, reads: 1, left: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			s := New("test", clock, time.Minute)
			s.Written(owner, child("web-a", "2"))
			clock.SetTime(clock.Now().Add(tc.after))
			reads := 0
			shown := func() iter.Seq[metav1.Object] { return slices.Values([]metav1.Object{child("web-a", tc.shown)}) }
			meta := &metav1.ObjectMeta{Name: "web", UID: owner}
			require.Equal(t, tc.want, s.Fresh(t.Context(), meta, shown, nil, func() error {
				reads++
				return tc.live
			}))
			require.Equal(t, tc.reads, reads)
			require.Equal(t, tc.left, s.Check(owner, shown()).Count)
		})
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tc := range []struct {
		name  string
		in    error
		after time.Duration
		out   error
		waits float64
	}{
		{name: "an owner that is gone ends the reconcile", in: ErrGone},
		{name: "a cache that lags is checked again after the wait", in: NotYetError{Wait{Count: 1, Left: time.Minute}}, after: time.Minute, waits: 1},
		{name: "a terminating namespace is checked again later", in: TerminatingError{time.Minute}, after: time.Minute},
		{name: "other errors are retried", in: boom, out: boom},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			waits := prometheus.NewCounter(prometheus.CounterOpts{Name: "waits_total", Help: "Waits."})
			got, err := Settle(t.Context(), tc.in, waits)
			require.Equal(t, tc.out, err)
			require.Equal(t, tc.after, got.RequeueAfter)
			require.InDelta(t, tc.waits, testutil.ToFloat64(waits), 0)
		})
	}
}

func TestEach(t *testing.T) {
	t.Parallel()
	var got []string
	first := func(o metav1.Object) bool {
		got = append(got, o.GetName())
		return o.GetName() != "b"
	}
	list := []metav1.Object{child("a", "1"), child("b", "1"), child("c", "1")}
	require.False(t, Each(list, first))
	require.Equal(t, []string{"a", "b"}, got)
	require.True(t, Each(list[:1], first))
}
