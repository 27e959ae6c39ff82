package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

func start(t *testing.T, a *app) (ask func(method, path string) (status int, body string)) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return func(method, path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		require.NoError(t, err)
		resp, err := server.Client().Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, strings.TrimSpace(string(body))
	}
}

func TestWhatItSays(t *testing.T) {
	t.Parallel()
	ask := start(t, newApp("2.0", true, []string{"B=2", "A=1", "EMPTY="}))
	for _, c := range []struct {
		what, method, path string
		status             int
		body               string
	}{
		{what: "its version", method: http.MethodGet, path: "/version", status: 200, body: "2.0"},
		{what: "its environment, in order", method: http.MethodGet, path: "/env", status: 200, body: "A=1\nB=2\nEMPTY="},
		{what: "one variable", method: http.MethodGet, path: "/env?name=A", status: 200, body: "1"},
		{what: "an empty variable", method: http.MethodGet, path: "/env?name=EMPTY", status: 200},
		{what: "an unset variable", method: http.MethodGet, path: "/env?name=C", status: 404, body: "no variable C"},
		{what: "that it is alive", method: http.MethodGet, path: "/healthz", status: 200, body: "ok"},
		{what: "that it is ready", method: http.MethodGet, path: "/readyz", status: 200, body: "ok"},
		{what: "to exit with an invalid code", method: http.MethodPost, path: "/exit?code=256", status: 400, body: "give code=N, from 0 to 255"},
		{what: "to be in an invalid state", method: http.MethodPost, path: "/ready?is=maybe", status: 400, body: "give is=yes or is=no"},
		{what: "a POST request as GET", method: http.MethodGet, path: "/hang", status: 405, body: "Method Not Allowed"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			status, body := ask(c.method, c.path)
			require.Equal(t, c.status, status)
			require.Equal(t, c.body, body)
		})
	}
}

func TestReadinessFollowsRequests(t *testing.T) {
	t.Parallel()
	ask := start(t, newApp("1.0", false, nil))
	ready := func() int { status, _ := ask(http.MethodGet, "/readyz"); return status }
	require.Equal(t, http.StatusServiceUnavailable, ready())
	_, _ = ask(http.MethodPost, "/ready?is=yes")
	require.Equal(t, http.StatusOK, ready())
	_, _ = ask(http.MethodPost, "/ready?is=no")
	require.Equal(t, http.StatusServiceUnavailable, ready())
	status, _ := ask(http.MethodGet, "/healthz")
	require.Equal(t, http.StatusOK, status, "it stays alive while it is not ready")
}

func TestItExitsWithTheRequestedCode(t *testing.T) {
	t.Parallel()
	a := newApp("1.0", true, nil)
	ask := start(t, a)
	status, _ := ask(http.MethodPost, "/exit?code=3")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 3, <-a.exit)
}

func TestItKeepsTheMemoryThatItAllocates(t *testing.T) {
	t.Parallel()
	a := newApp("1.0", true, nil)
	ask := start(t, a)
	for range 2 {
		status, _ := ask(http.MethodPost, "/memory?mb=1")
		require.Equal(t, http.StatusOK, status)
	}
	require.Len(t, a.held, 2)
	require.Len(t, a.held[1], 1<<20)
}

func TestItHangsOnRequest(t *testing.T) {
	t.Parallel()
	a := newApp("1.0", true, nil)
	ask := start(t, a)
	_, _ = ask(http.MethodPost, "/hang")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/healthz", nil))
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded, "it must not answer before the client gives up")
	require.Empty(t, w.Body.String())
}

func TestItsVariables(t *testing.T) {
	for what, c := range map[string]struct {
		env  map[string]string
		code int
		err  string
	}{
		"it exits as requested":              {env: map[string]string{"TESTAPP_EXIT": "7"}, code: 7},
		"an invalid code":                    {env: map[string]string{"TESTAPP_EXIT": "x"}, code: 2, err: "TESTAPP_EXIT"},
		"an invalid delay":                   {env: map[string]string{"TESTAPP_START_DELAY": "x"}, code: 2, err: "TESTAPP_START_DELAY"},
		"it is terminated before it listens": {env: map[string]string{"TESTAPP_START_DELAY": "1h"}},
		"it serves until it is terminated":   {env: map[string]string{"TESTAPP_ADDR": "127.0.0.1:0", "TESTAPP_STOP_DELAY": "1ms"}},
		"an invalid address":                 {env: map[string]string{"TESTAPP_ADDR": "127.0.0.1:x"}, code: 1, err: "listen"},
	} {
		t.Run(what, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			code, err := run(ctx, nil, io.Discard)
			require.Equal(t, c.code, code)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestGetPrintsWhatIsThere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newApp("1.0", false, nil))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	code, err := run(t.Context(), []string{"get", server.URL + "/version"}, &out)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, "1.0\n", out.String())

	_, err = run(t.Context(), []string{"get", server.URL + "/readyz"}, &out)
	require.ErrorContains(t, err, "503")
	code, err = run(t.Context(), []string{"put"}, &out)
	require.ErrorContains(t, err, "usage")
	require.Equal(t, 2, code)
}

// TestTheNextOneTakesOver sends requests while the first process hands over to the second one, and that one to a third.
func TestTheNextOneTakesOver(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TESTAPP_HANDOVER", filepath.Join(dir, "next"))
	t.Setenv("TESTAPP_STOP_DELAY", "1m")
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is closed at once.
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())
	t.Setenv("TESTAPP_ADDR", addr)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/version", nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(resp.Body)
		return strings.TrimSpace(string(body)), errors.Join(err, resp.Body.Close())
	}
	process := func(version string) (end func()) {
		t.Setenv("TESTAPP_VERSION", version)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := run(ctx, nil, io.Discard)
			ended <- err
		}()
		require.Eventually(t, func() bool { answer, err := ask(); return err == nil && answer == version },
			testtimeout.Scale(10*time.Second), time.Millisecond)
		return func() { cancel(); require.NoError(t, <-ended) }
	}
	first := process("1")
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := ask(); err != nil {
				stopped <- err
				return
			}
		}
	}()
	second := process("2")
	first()
	process("3") // It ends with the test's context.
	second()
	answer, err := ask()
	require.NoError(t, err)
	require.Equal(t, "3", answer, "only the last process serves")
	close(stop)
	require.NoError(t, <-stopped)
}
