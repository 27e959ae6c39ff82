package agent

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAttack09RowsThatTheHubDidNotWithdrawMeetABreaker(t *testing.T) {
	t.Parallel()
	row := func(i int) client.ObjectKey { return client.ObjectKey{Namespace: "fleet-east", Name: strconv.Itoa(i)} }
	b, now := newBreaker(), testNow()
	for i := range breakerFloor {
		require.True(t, b.pass(row(i), 50, now))
		require.True(t, b.pass(row(i), 50, now), "a row counts once")
	}
	require.False(t, b.pass(row(10), 50, now))
	now = now.Add(time.Hour)
	require.False(t, b.pass(row(10), 50, now), "a held row is not released by time")
	require.False(t, b.pass(row(11), 50, now), "other rows are held too")
	b.release(row(10))
	require.False(t, b.pass(row(12), 50, now), "new rows are held while any row is held back")
	b.release(row(11))
	b.release(row(12))
	require.True(t, b.pass(row(13), 50, now))

	large := newBreaker()
	for i := range 50 {
		require.True(t, large.pass(row(i), 1000, now), "5 %% of 1,000 lines may go")
	}
	require.False(t, large.pass(row(50), 1000, now))
	slow := newBreaker()
	for i := range 100 {
		now = now.Add(7 * time.Second)
		require.True(t, slow.pass(row(i), 50, now))
	}
}
