package probe

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A namespace whose commands never end delays only its own commands.
func TestAttack24CommandsOfOneNamespaceLeaveRoomForThoseOfOthers(t *testing.T) {
	t.Parallel()
	s := newSlots()
	var held []func()
	for range maxExecsOf {
		release, err := s.take(t.Context(), "greedy")
		require.NoError(t, err)
		held = append(held, release)
	}
	ended, end := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := s.take(ended, "greedy")
		waits <- err
	}()
	for range maxExecsOf {
		release, err := s.take(t.Context(), "other")
		require.NoError(t, err)
		defer release()
	}
	end()
	require.ErrorIs(t, <-waits, context.Canceled)
	next := make(chan func(), 1)
	go func() {
		release, _ := s.take(t.Context(), "greedy")
		next <- release
	}()
	held[0]()
	(<-next)()
	for _, release := range held[1:] {
		release()
	}
	require.NotContains(t, s.byNamespace, "greedy", "an unused entry is removed")
}
