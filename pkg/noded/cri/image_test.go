package cri

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flotilla-io/flotilla/testkit/fakecri"
)

func TestPull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := New(dir, "")
	t.Cleanup(n.Close)
	_, err := n.First()
	require.ErrorIs(t, err, ErrNoRuntime)
	crio := fakecri.Start(t, filepath.Join(dir, "crio.sock"), "cri-o")
	server := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	require.NoError(t, n.Refresh(t.Context()))
	r, err := n.First()
	require.NoError(t, err)
	require.Equal(t, "containerd", r.Name, "the first in the order of sockets")

	_, err = r.Image(t.Context(), "app:1")
	require.ErrorIs(t, err, ErrNoImage)
	pulled, err := r.Pull(t.Context(), "app:1", Sandbox{Labels: map[string]string{"team": "sea"}, Annotations: map[string]string{"why": "soon"}}, nil)
	require.NoError(t, err)
	has, err := r.Image(t.Context(), "app:1")
	require.NoError(t, err)
	require.Equal(t, pulled, has)
	require.Equal(t, []string{"PullImage app:1 map[team:sea] map[why:soon]"}, server.Calls())
	require.Empty(t, crio.Calls())

	server.Fail("PullImage", status.Error(codes.NotFound, "no such tag"))
	_, err = r.Pull(t.Context(), "app:2", Sandbox{}, nil)
	require.EqualError(t, err, "pull image app:2: NotFound: no such tag")
	require.NotErrorIs(t, err, ErrNoImage, "the registry doesn't have it")
	server.Fail("ImageStatus", errors.New("disk full"))
	_, err = r.Image(t.Context(), "app:1")
	require.EqualError(t, err, "read image app:1: Unknown: disk full")
	require.NotErrorIs(t, err, ErrNoImage, "a failing runtime doesn't mean that the image is missing")

	n.Close()
	_, err = n.First()
	require.ErrorIs(t, err, ErrNoRuntime)
}

func TestAPullEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	r, err := found(t, dir, "").First()
	require.NoError(t, err)
	late := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	server.Hang(true)
	server.On("PullImage", func(string) { cancel(late) })
	_, err = r.Pull(ctx, "app:1", Sandbox{}, nil)
	require.ErrorIs(t, err, late)
	server.Stop() // Waits for the call to return.
	require.True(t, slices.Contains(server.Calls(), "PullImage app:1 ended"), "the runtime stops pulling")
}

func TestAPullFailsWhenItsRuntimeIsRestarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "containerd.sock")
	server := fakecri.Start(t, socket, "containerd")
	n := found(t, dir, "")
	r, err := n.First()
	require.NoError(t, err)
	server.Hang(true)
	server.On("PullImage", func(string) { go server.Stop() })
	_, err = r.Pull(t.Context(), "app:1", Sandbox{}, nil)
	require.ErrorContains(t, err, "pull image app:1: Unavailable")

	fakecri.Start(t, socket, "containerd")
	require.NoError(t, n.Refresh(t.Context()))
	r, err = n.First()
	require.NoError(t, err)
	_, err = r.Pull(t.Context(), "app:1", Sandbox{}, nil)
	require.NoError(t, err, "another attempt succeeds")
}
