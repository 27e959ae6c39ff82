package cri

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/flotilla-io/flotilla/testkit/fakecri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// found returns the runtimes in a directory after one Refresh.
func found(t *testing.T, dir, file string) *Runtimes {
	t.Helper()
	n := New(dir, file)
	t.Cleanup(n.Close)
	_ = n.Refresh(t.Context())
	return n
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		sockets map[string]string // name of the runtime, by socket
		files   []string          // existing files that aren't sockets
		file    string            // --socket-file
		want    []string
		why     string
	}{
		{name: "containerd beside its directory", sockets: map[string]string{"containerd.sock": "containerd"}, want: []string{"containerd v9"}},
		{name: "CRI-O in its directory", sockets: map[string]string{"crio/crio.sock": "cri-o"}, want: []string{"cri-o v9"}},
		{
			name: "several, in order", want: []string{"containerd v9", "docker v9"},
			sockets: map[string]string{"cri-dockerd.sock": "docker", "containerd/containerd.sock": "containerd"},
		},
		{
			name: "only the socket that a flag names", file: "odd.sock", want: []string{"containerd v9"},
			sockets: map[string]string{"odd.sock": "containerd", "crio.sock": "cri-o"},
		},
		{name: "#1663: an error names the sockets that were tried", why: "has none of containerd.sock, containerd/containerd.sock, crio.sock"},
		{name: "a file is not a socket", files: []string{"crio.sock"}, why: "crio.sock is not a socket"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, name := range tc.sockets {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
				fakecri.Start(t, filepath.Join(dir, file), name)
			}
			for _, file := range tc.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
			}
			n := found(t, dir, tc.file)
			require.Equal(t, tc.want, n.Names())
			if tc.why == "" {
				require.NoError(t, n.Err())
				return
			}
			require.ErrorIs(t, n.Err(), ErrNoRuntime)
			require.ErrorContains(t, n.Err(), tc.why)
			_, _, err := n.Of("containerd://a")
			require.ErrorIs(t, err, ErrNoRuntime)
		})
	}
}

func TestRefreshAddsAndDropsRuntimes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "containerd.sock")
	n := New(dir, "")
	t.Cleanup(n.Close)
	require.ErrorContains(t, n.Err(), "not checked yet")
	require.ErrorIs(t, n.Refresh(t.Context()), ErrNoRuntime)

	first := fakecri.Start(t, socket, "containerd")
	require.NoError(t, n.Refresh(t.Context()))
	first.Fail("Version", status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService"))
	require.ErrorContains(t, n.Refresh(t.Context()), "containerd.sock: ask the runtime's version: Unimplemented: unknown service")
	first.Stop()
	require.ErrorIs(t, n.Refresh(t.Context()), ErrNoRuntime)

	second := fakecri.Start(t, socket, "containerd")
	require.NoError(t, n.Refresh(t.Context()), "the runtime was restarted")
	require.Equal(t, []string{"containerd v9"}, n.Names())
	second.Upgrade("v10")
	require.NoError(t, n.Refresh(t.Context()))
	require.Equal(t, []string{"containerd v10"}, n.Names(), "another runtime behind the same socket")
}

func TestARuntimeIsChosenByTheContainersID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	crio := fakecri.Start(t, filepath.Join(dir, "crio.sock"), "cri-o")
	n := found(t, dir, "")
	r, id, err := n.Of(crio.Run(fakecri.Container{Name: "app"}))
	require.NoError(t, err)
	require.Equal(t, "cri-o", r.Name)
	require.Equal(t, "app-1", id)
	_, _, err = n.Of("docker://a")
	require.EqualError(t, err, "no container runtime: no runtime is named docker")
	_, _, err = n.Of("a")
	require.ErrorContains(t, err, "names no runtime")
}

func TestContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	n := found(t, dir, "")
	for _, tc := range []struct {
		name string
		from fakecri.Container
		want Container
	}{
		{
			"B 19: the environment comes from the runtime, not the image, and only requested variables",
			fakecri.Container{Env: []string{"PATH=/bin", "CONFIG=one", "SECRET=key"}, Hash: 0xabc},
			Container{Running: true, Hash: 0xabc, Env: map[string]string{"CONFIG": "one"}},
		},
		{
			"of two values the last one counts, and a value may contain any character",
			fakecri.Container{Env: []string{"CONFIG=one", "CONFIG=a=b\nc", "EMPTY="}},
			Container{Running: true, Env: map[string]string{"CONFIG": "a=b\nc", "EMPTY": ""}},
		},
		{
			"also from the request that created the container",
			fakecri.Container{Env: []string{"CONFIG=one"}, EnvInConfig: true},
			Container{Running: true, Env: map[string]string{"CONFIG": "one"}},
		},
		{"a runtime may not report it", fakecri.Container{Env: []string{"CONFIG=one"}, HideEnv: true}, Container{Running: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.from.Name, tc.from.Pod = "app", "u1"
			tc.want.Name, tc.want.PodUID = "app", "u1"
			r, id, err := n.Of(server.Run(tc.from))
			require.NoError(t, err)
			got, err := r.Container(t.Context(), id, []string{"CONFIG", "EMPTY"})
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestStopAndExec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	r, id, err := found(t, dir, "").Of(server.Run(fakecri.Container{Name: "app"}))
	require.NoError(t, err)

	require.NoError(t, r.Exec(t.Context(), id, []string{"drain", "now"}, 5*time.Second))
	require.EqualError(t, r.Exec(t.Context(), id, []string{"exit", "3"}, 0), "run a command in container app-1: it ended with code 3")
	require.NoError(t, r.Exec(t.Context(), id, []string{"write", "1000000"}, time.Second))
	require.ErrorContains(t, r.Exec(t.Context(), id, []string{"write", "3000000"}, time.Second), "larger than max",
		"the output of a command can't fill the memory")
	require.NoError(t, r.Stop(t.Context(), id, 2500*time.Millisecond))
	require.ErrorContains(t, r.Exec(t.Context(), id, []string{"drain"}, time.Second), "container is not running")
	require.Equal(t, []string{
		"ExecSync app-1 drain now", "ExecSync app-1 exit 3", "ExecSync app-1 write 1000000", "ExecSync app-1 write 3000000",
		"StopContainer app-1 2",
	}, server.Calls())
	got, err := r.Container(t.Context(), id, nil)
	require.NoError(t, err)
	require.Equal(t, Container{Name: "app"}, got)

	require.NoError(t, r.Stop(t.Context(), "gone", 0), "a container that is gone need not be stopped")
	_, err = r.Container(t.Context(), "gone", nil)
	require.ErrorIs(t, err, ErrNotFound)
	server.Fail("StopContainer", errors.New("disk full"))
	require.ErrorContains(t, r.Stop(t.Context(), id, 0), "stop container app-1: Unknown: disk full")
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	r, id, err := found(t, dir, "").Of(server.Run(fakecri.Container{Name: "app"}))
	require.NoError(t, err)

	out, err := r.Run(t.Context(), id, []string{"exit", "3"}, time.Second)
	require.NoError(t, err, "any code is a result")
	require.EqualValues(t, 3, out.Code)
	_, err = r.Run(t.Context(), id, []string{"hang"}, time.Second)
	require.ErrorIs(t, err, ErrTimeout)
	_, err = r.Run(t.Context(), id, []string{"write", "3000000"}, time.Second)
	require.ErrorIs(t, err, ErrOutput)
	server.Commands(func(string, []string) (*criv1.ExecSyncResponse, error) {
		return &criv1.ExecSyncResponse{Stdout: []byte("out "), Stderr: []byte("err")}, nil
	})
	out, err = r.Run(t.Context(), id, []string{"x"}, time.Second)
	require.NoError(t, err)
	require.Equal(t, "out err", string(out.Text))

	server.Commands(nil)
	server.Hang(true)
	ctx, cancel := context.WithCancel(t.Context())
	server.On("ExecSync", func(string) { cancel() })
	_, err = r.Run(ctx, id, []string{"hang"}, time.Second)
	require.ErrorContains(t, err, "Canceled")
	require.NotErrorIs(t, err, ErrTimeout, "the caller gave up")
	server.Stop() // Waits for the call to return.
	require.Contains(t, server.Calls(), "ExecSync app-1 hang ended", "the runtime kills it")
}
