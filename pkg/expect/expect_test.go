package expect

import (
	"slices"
	"testing"
	"time"

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
			name:  "without a write there is nothing to wait for",
			write: func(*Store) {},
		},
		{
			name:  "a created child that the cache doesn't show is waited for",
			write: func(s *Store) { s.Created(owner, child("a", "5")) },
			shown: []metav1.Object{child("b", "9")},
			want:  1,
		},
		{
			name:  "a created child that the cache shows is done",
			write: func(s *Store) { s.Created(owner, child("a", "5")) },
			shown: []metav1.Object{child("a", "5")},
		},
		{
			name:  "a written child in its former version is waited for",
			write: func(s *Store) { s.Written(owner, child("a", "10")) },
			shown: []metav1.Object{child("a", "9")},
			want:  1,
		},
		{
			name:  "a written child in a later version is done, and versions compare as numbers",
			write: func(s *Store) { s.Written(owner, child("a", "9")) },
			shown: []metav1.Object{child("a", "10")},
		},
		{
			name:  "a written child that is gone is done",
			write: func(s *Store) { s.Written(owner, child("a", "9")) },
		},
		{
			name:  "a deleted child that still runs in the cache is waited for",
			write: func(s *Store) { s.Deleted(owner, child("a", "9")) },
			shown: []metav1.Object{child("a", "9")},
			want:  1,
		},
		{
			name:  "a deleted child that terminates is done",
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
			name:  "writes for another owner don't matter",
			write: func(s *Store) { s.Created("other", child("a", "5")) },
		},
		{
			name: "forgotten writes don't matter",
			write: func(s *Store) {
				s.Created(owner, child("a", "5"))
				s.Forget(owner)
			},
		},
		{
			name:  "versions that are no numbers must be equal",
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
	s.Created(owner, child("a", "5"))
	none := slices.Values([]metav1.Object(nil))

	c.SetTime(time.Unix(1059, 0))
	require.Equal(t, time.Second, s.Check(owner, none).Left)
	require.InDelta(t, 0, testutil.ToFloat64(timeouts.WithLabelValues("Overdue")), 0)

	c.SetTime(time.Unix(1060, 0))
	require.True(t, s.Check(owner, none).Overdue)
	require.InDelta(t, 1, testutil.ToFloat64(timeouts.WithLabelValues("Overdue")), 0)

	s.Renew(owner, none)
	require.Zero(t, s.Check(owner, none), "the apiserver has no such child, so there is nothing to wait for")
}

func TestRenewGoesOnWaitingForWhatTheCacheLagsBehind(t *testing.T) {
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

func TestCheckForgetsWhatCameTrue(t *testing.T) {
	t.Parallel()
	s := New("Test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), 0)
	s.Created(owner, child("a", "5"))
	require.Zero(t, s.Check(owner, slices.Values([]metav1.Object{child("a", "5")})))
	require.Empty(t, s.owners)
	require.Zero(t, s.Check(owner, slices.Values([]metav1.Object(nil))), "a child once seen may go")
}
