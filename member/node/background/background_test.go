package background

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestATaskRunsUntilItIsEndedOrReplaced(t *testing.T) {
	t.Parallel()
	var p Pool[string, int]
	said := make(chan int)
	begin := func(key string, state int) {
		p.Begin(t.Context(), key, state, func(ctx context.Context, update func(func(*int))) {
			update(func(n *int) { *n *= 10 })
			said <- state
			<-ctx.Done()
			update(func(n *int) { *n = 0 })
		})
	}
	begin("a", 1)
	require.Equal(t, 1, <-said)
	begin("b", 2)
	require.Equal(t, 2, <-said)
	require.Equal(t, map[string]int{"a": 10, "b": 20}, p.States())

	begin("a", 3)
	require.Equal(t, 3, <-said)
	p.End("b", "unknown")
	require.Equal(t, map[string]int{"a": 30}, p.States(), "a replaced task changes nothing")
	require.Equal(t, 1, p.Len())
	p.End("a")
	p.Wait()
	require.Empty(t, p.States())
}

func TestATaskThatReturnsKeepsItsState(t *testing.T) {
	t.Parallel()
	var p Pool[string, int]
	p.Begin(t.Context(), "a", 1, func(_ context.Context, update func(func(*int))) { update(func(n *int) { *n = 2 }) })
	p.Wait()
	require.Equal(t, map[string]int{"a": 2}, p.States())
}

func TestPauseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Time{})
	ctx, cancel := context.WithCancel(t.Context())
	require.True(t, Pause(ctx, clock, 0))
	cancel()
	require.False(t, Pause(ctx, clock, 0))
	require.False(t, Pause(ctx, clock, time.Second))
	require.False(t, clock.HasWaiters())
}

func TestATimeoutHasItsCause(t *testing.T) {
	t.Parallel()
	clock, late := clocktesting.NewFakeClock(time.Time{}), errors.New("late")
	ctx, cancel := WithTimeout(t.Context(), clock, time.Second, late)
	clock.Step(time.Second)
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), late)
	cancel()
	ctx, cancel = WithTimeout(t.Context(), clock, time.Second, late)
	cancel()
	require.NotErrorIs(t, context.Cause(ctx), late)
	require.False(t, clock.HasWaiters())
}
