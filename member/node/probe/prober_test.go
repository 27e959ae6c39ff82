package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
)

// runtimes returns the runtimes of a node with a runtime that the kubelet uses.
func runtimes(tb testing.TB) (*fakecri.Runtime, *cri.Runtimes) {
	tb.Helper()
	dir := tb.TempDir()
	server, client := fakecri.Start(tb, filepath.Join(dir, "containerd.sock"), "containerd"), cri.New(dir, "")
	tb.Cleanup(client.Close)
	require.NoError(tb, client.Refresh(tb.Context()))
	return server, client
}

func TestExec(t *testing.T) {
	t.Parallel()
	server, client := runtimes(t)
	app, foreign := server.Run(fakecri.Container{Name: "app", Pod: "u1"}), server.Run(fakecri.Container{Name: "app", Pod: "u2"})
	ended := server.Run(fakecri.Container{Name: "app", Pod: "u1"})
	server.End(strings.TrimPrefix(ended, "containerd://"))
	server.Commands(func(_ string, cmd []string) (*criv1.ExecSyncResponse, error) {
		switch cmd[0] {
		case "idle":
			return &criv1.ExecSyncResponse{Stdout: []byte("1\n")}, nil
		case "busy":
			return &criv1.ExecSyncResponse{ExitCode: 2, Stderr: []byte("busy")}, nil
		case "mute":
			return &criv1.ExecSyncResponse{ExitCode: 3}, nil
		case "binary":
			return &criv1.ExecSyncResponse{Stdout: []byte("\xff" + strings.Repeat("é", 2000))}, nil
		case "loud":
			return &criv1.ExecSyncResponse{Stdout: make([]byte, 2<<20)}, nil
		case "hang":
			return nil, status.Error(codes.DeadlineExceeded, "timeout 1s exceeded")
		}
		return nil, status.Error(codes.Unknown, "executable file not found in $PATH")
	})
	for _, tc := range []struct {
		name    string
		id      string
		command string
		want    attempt
		err     string
	}{
		{"a success has the output of the command", app, "idle", attempt{true, "1\n"}, ""},
		{"a failure has the output of the command", app, "busy", attempt{false, "busy"}, ""},
		{"a failure without output has the exit code", app, "mute", attempt{false, "the command exited with code 3"}, ""},
		{"a command that hangs is killed by the runtime", app, "hang", attempt{false, "the command did not finish within 1s and was killed"}, ""},
		{"output is sanitized and truncated", app, "binary", attempt{true, "\uFFFD" + strings.Repeat("é", 510)}, ""},
		{"too much output is a failure", app, "loud", attempt{false, "the command wrote more than 1 MiB"}, ""},
		{"a missing program is no result", app, "nope", attempt{}, "executable file not found"},
		{"a container that has ended is no result", ended, "idle", attempt{}, "container is not running"},
		{"a container that is gone is no result", "containerd://x", "idle", attempt{}, "container not found"},
		{"a runtime that does not answer is no result", "cri-o://x", "idle", attempt{}, "no container runtime"},
		{"nothing is run in the container of another pod", foreign, "idle", attempt{}, "is not container app of the pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := &job{Key: key{Pod: "u1", Name: "m#a"}, container: "app", id: tc.id, probe: command(tc.command)}
			got, err := newProber(client).probe(t.Context(), j)
			require.Equal(t, tc.want, got)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.err)
		})
	}
	t.Cleanup(func() { // This runs after the subtests.
		require.NotEmpty(t, server.Calls())
		for _, call := range server.Calls() {
			require.True(t, strings.HasPrefix(call, "ExecSync app-1 "), call)
		}
	})
}

// webServer serves pages over HTTP and HTTPS. asked receives the requests, one at a time.
func webServer(t *testing.T) (plain, secure *httptest.Server, asked chan *http.Request) {
	t.Helper()
	asked = make(chan *http.Request, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r:
		default:
		}
		switch r.URL.Path {
		case "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("not now"))
		case "/away":
			http.Redirect(w, r, "http://elsewhere.example/x", http.StatusFound)
		case "/within":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/headers":
			w.Header().Set("X-Large", strings.Repeat("a", 1<<20))
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat("a", 1<<20)))
		default:
			_, _ = w.Write([]byte("fine"))
		}
	})
	plain, secure = httptest.NewServer(mux), httptest.NewTLSServer(mux)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	return plain, secure, asked
}

// get makes an attempt at a server.
func get(ctx context.Context, server *httptest.Server, h corev1.HTTPGetAction) (attempt, error) {
	return newProber(nil).probe(ctx, &job{
		address: server.Listener.Addr().String(), probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &h}},
	})
}

func TestHTTPGet(t *testing.T) {
	t.Parallel()
	plain, secure, _ := webServer(t)
	for _, tc := range []struct {
		name string
		path string
		want attempt
	}{
		{"200 is success, with the body", "/ok?x=1", attempt{true, "fine"}},
		{"a path may have no slash, or too many", "//ok", attempt{true, "fine"}},
		{"503 is a failure", "/down", attempt{false, "HTTP status 503 Service Unavailable"}},
		{"a redirect within the pod is followed", "/within", attempt{true, "fine"}},
		{"a redirect to another host is not followed, and is a success", "/away", attempt{true, "HTTP status 302 Found, redirect to http://elsewhere.example/x not followed"}},
		{"an endless redirect is a failure", "/round", attempt{false, `Get "/round": stopped after 10 redirects`}},
		{"a message is truncated", "/large", attempt{true, strings.Repeat("a", podprobe.MaxMessage)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := get(t.Context(), plain, corev1.HTTPGetAction{Path: tc.path})
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	got, err := get(t.Context(), secure, corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS})
	require.NoError(t, err)
	require.Equal(t, attempt{true, "fine"}, got, "any certificate will do")
	got, err = get(t.Context(), plain, corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS})
	require.NoError(t, err)
	require.False(t, got.success)
	require.Contains(t, got.message, "server gave HTTP response to HTTPS client")
	_, err = get(t.Context(), plain, corev1.HTTPGetAction{Path: "/%zz"})
	require.ErrorContains(t, err, "parse httpGet.path")
}

// Many pods of one tenant could fill the daemon's memory otherwise.
func TestAttack24TheHeadersOfAResponseAreBounded(t *testing.T) {
	t.Parallel()
	plain, _, _ := webServer(t)
	got, err := get(t.Context(), plain, corev1.HTTPGetAction{Path: "/headers"})
	require.NoError(t, err)
	require.False(t, got.success)
	require.Contains(t, got.message, "server response headers exceeded 65536 bytes")
}

func TestHeadersOfHTTPGet(t *testing.T) {
	t.Parallel()
	server, _, asked := webServer(t)
	_, err := get(t.Context(), server, corev1.HTTPGetAction{})
	require.NoError(t, err)
	q := <-asked
	require.Equal(t, "/", q.URL.Path)
	require.Equal(t, userAgent, q.UserAgent())
	require.Equal(t, "*/*", q.Header.Get("Accept"))
	_, err = get(t.Context(), server, corev1.HTTPGetAction{HTTPHeaders: []corev1.HTTPHeader{
		{Name: "host", Value: "shop.example"}, {Name: "User-Agent", Value: ""}, {Name: "accept", Value: "text/plain"}, {Name: "X-Why", Value: "probe"},
	}})
	require.NoError(t, err)
	q = <-asked
	require.Equal(t, "shop.example", q.Host)
	require.NotContains(t, q.Header, "User-Agent")
	require.Equal(t, []string{"text/plain"}, q.Header.Values("Accept"))
	require.Equal(t, "probe", q.Header.Get("X-Why"))
	server.Close()
	got, err := get(t.Context(), server, corev1.HTTPGetAction{})
	require.NoError(t, err)
	require.Contains(t, got.message, "connection refused")
}

// listen returns the address of a server that accepts connections and does nothing with them.
func listen(t *testing.T) string {
	t.Helper()
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestTCPSocket(t *testing.T) {
	t.Parallel()
	j := &job{address: listen(t), probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}}
	got, err := newProber(nil).probe(t.Context(), j)
	require.NoError(t, err)
	require.Equal(t, attempt{success: true}, got)
	j.address = "127.0.0.1:1"
	got, err = newProber(nil).probe(t.Context(), j)
	require.NoError(t, err)
	require.False(t, got.success)
	require.Contains(t, got.message, "connection refused")
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	serve := func(register func(*grpc.Server)) string {
		var c net.ListenConfig
		l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := grpc.NewServer()
		register(server)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(l)
		}()
		t.Cleanup(func() {
			server.Stop()
			<-done
		})
		return l.Addr().String()
	}
	state := health.NewServer()
	state.SetServingStatus("down", healthv1.HealthCheckResponse_NOT_SERVING)
	up, bare := serve(func(s *grpc.Server) { healthv1.RegisterHealthServer(s, state) }), serve(func(*grpc.Server) {})
	for _, tc := range []struct {
		name    string
		address string
		service *string
		want    attempt
	}{
		{"the server serves", up, nil, attempt{success: true}},
		{"an empty name means the server", up, new(""), attempt{success: true}},
		{"a service does not serve", up, new("down"), attempt{false, "the service reported NOT_SERVING"}},
		{"an unknown service", up, new("x"), attempt{false, "NotFound: unknown service"}},
		{"a server without the protocol", bare, nil, attempt{false, "the server doesn't implement grpc.health.v1.Health: unknown service grpc.health.v1.Health"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := &job{address: tc.address, probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Service: tc.service}}}}
			got, err := newProber(nil).probe(t.Context(), j)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	j := &job{address: "127.0.0.1:1", probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}}}
	got, err := newProber(nil).probe(t.Context(), j)
	require.NoError(t, err)
	require.False(t, got.success)
	require.Contains(t, got.message, "Unavailable: ")
	require.Contains(t, got.message, "connection refused")
}

// Accepting a connection and never answering is a failure once the time is over.
func TestAnAttemptEndsWithItsTime(t *testing.T) {
	t.Parallel()
	address := listen(t)
	for name, h := range map[string]corev1.ProbeHandler{
		"httpGet": {HTTPGet: &corev1.HTTPGetAction{}},
		"grpc":    {GRPC: &corev1.GRPCAction{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("too late"))
			got, err := newProber(nil).probe(ctx, &job{address: address, probe: corev1.Probe{ProbeHandler: h}})
			require.NoError(t, err)
			require.Equal(t, attempt{false, "too late"}, got)
		})
	}
}

// FuzzExec: whatever a command prints, and however it ends, the result can be stored.
func FuzzExec(f *testing.F) {
	server, client := runtimes(f)
	id := server.Run(fakecri.Container{Name: "app", Pod: "u1"})
	f.Add([]byte("ok"), []byte(nil), int32(0), "")
	f.Add([]byte("\xff\x00"), []byte(strings.Repeat("é", 1000)), int32(-1), "")
	f.Add([]byte(nil), []byte(nil), int32(0), "\xff no \x00 such \uFFFD")
	f.Fuzz(func(t *testing.T, out, errs []byte, code int32, why string) {
		server.Commands(func(string, []string) (*criv1.ExecSyncResponse, error) {
			if why != "" {
				return nil, status.Error(codes.Unknown, why)
			}
			return &criv1.ExecSyncResponse{Stdout: out, Stderr: errs, ExitCode: code}, nil
		})
		got, err := newProber(client).probe(t.Context(), &job{Key: key{Pod: "u1"}, container: "app", id: id, probe: command("x")})
		require.Equal(t, why != "", err != nil)
		require.True(t, utf8.ValidString(got.message))
		require.LessOrEqual(t, len(got.message), podprobe.MaxMessage)
		require.Equal(t, why == "" && code == 0, got.success)
		if !got.success && err == nil {
			require.NotEmpty(t, got.message)
		}
	})
}
