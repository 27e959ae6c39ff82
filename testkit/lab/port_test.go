package lab

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortsAreTakenOnceAndAgainWhenTheirOwnerIsGone(t *testing.T) {
	t.Parallel()
	book := portBook{dir: t.TempDir()}
	east, west := t.TempDir(), filepath.Join(t.TempDir(), "west")
	require.NoError(t, os.Mkdir(west, 0o700))

	first, err := book.take(t.Context(), east, 2)
	require.NoError(t, err)
	require.Len(t, first, 2)
	second, err := book.take(t.Context(), west, 2)
	require.NoError(t, err)
	for _, p := range append(first, second...) {
		require.GreaterOrEqual(t, p, firstPort)
		require.LessOrEqual(t, p, lastPort)
	}
	require.NotContains(t, first, second[0])
	require.NotContains(t, first, second[1])

	require.NoError(t, book.release(first...))
	require.NoError(t, book.release(first...), "a second call changes nothing")
	require.NoError(t, os.Remove(west)) // Removed manually: nothing gave its ports back.
	for _, p := range append(first, second...) {
		require.False(t, book.isOwned(p))
	}
}

func TestAPortThatSomeoneListensOnIsPassedOver(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	book := portBook{dir: t.TempDir()}
	free, err := book.take(t.Context(), t.TempDir(), 1)
	require.NoError(t, err)
	require.NoError(t, book.release(free...))

	l, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(free[0])))
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	next, err := book.take(t.Context(), t.TempDir(), 1)
	require.NoError(t, err)
	require.NotEqual(t, free, next)
}

func TestPortsTakenAtTheSameTimeDiffer(t *testing.T) {
	t.Parallel()
	book, owner := portBook{dir: t.TempDir()}, t.TempDir()
	got := make([][]int, 10)
	errs := make([]error, len(got))
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], errs[i] = book.take(t.Context(), owner, 2) })
	}
	wg.Wait()
	seen := map[int]bool{}
	for i := range got {
		require.NoError(t, errs[i])
		for _, p := range got[i] {
			require.False(t, seen[p], "port %d is taken twice", p)
			seen[p] = true
		}
	}
	require.Len(t, seen, 20)
}
