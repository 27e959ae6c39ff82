package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestRequestersWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(noon)
	a := &approver{clock: clk, bucket: map[string]*rate.Limiter{}}
	for range requestsBurst {
		require.Zero(t, a.wait("kruise:member:west"))
	}
	require.Equal(t, requestsEvery, a.wait("kruise:member:west"), "a flood waits")
	require.Zero(t, a.wait("kruise:member:east"), "and does not use up another member's turns")
	clk.SetTime(noon.Add(requestsEvery))
	require.Zero(t, a.wait("kruise:member:west"))
	require.Equal(t, requestsEvery, a.wait("kruise:member:west"))
}

func TestStrangersShareOneTurn(t *testing.T) {
	t.Parallel()
	a := &approver{clock: clocktesting.NewFakePassiveClock(noon), bucket: map[string]*rate.Limiter{}}
	for i := range requestsBurst {
		require.Zero(t, a.wait(name(i)))
	}
	require.Equal(t, requestsEvery, a.wait("somebody else"))
	require.Len(t, a.bucket, 1, "the table does not grow with names that anybody may choose")
}

func TestQuietRequestersAreForgotten(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(noon)
	a := &approver{clock: clk, bucket: map[string]*rate.Limiter{}}
	a.wait("kruise:member:west")
	clk.SetTime(noon.Add(time.Hour))
	a.wait("kruise:member:east")
	require.Len(t, a.bucket, 1)
}

func TestHolderIsAnotherClusterOfThatUID(t *testing.T) {
	t.Parallel()
	all := []fleetv1alpha1.MemberCluster{*settled().mc}
	require.Equal(t, "east", holder(all, "west", "uid"))
	require.Empty(t, holder(all, "east", "uid"), "itself is no other")
	require.Empty(t, holder(all, "west", "another"))
}
