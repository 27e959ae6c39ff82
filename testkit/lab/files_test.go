package lab

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockHasOneHolderAtATime(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "new", "lock")
	unlock, err := lock(t.Context(), file)
	require.NoError(t, err)

	short, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	_, err = lock(short, file)
	require.ErrorIs(t, err, context.DeadlineExceeded, "held by another")

	long, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	second := make(chan error, 1)
	go func() {
		unlock, err := lock(long, file)
		if err == nil {
			unlock()
		}
		second <- err
	}()
	unlock()
	require.NoError(t, <-second, "free again")
}

func TestWriteJSONReplacesTheFileAndLeavesNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.json")
	require.NoError(t, writeJSON(file, map[string]int{"a": 1}))
	require.NoError(t, writeJSON(file, map[string]int{"a": 2}))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.JSONEq(t, `{"a": 2}`, string(data))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	require.ErrorContains(t, writeJSON(file, func() {}), "encode a.json")
}
