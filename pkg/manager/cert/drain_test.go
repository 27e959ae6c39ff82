package cert

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

func TestAStoppingServerAnswersAndClosesItsConnections(t *testing.T) {
	t.Parallel()
	model := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate and a client that trusts it
	defer model.Close()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	require.NoError(t, listener.Close())

	now := clocktesting.NewFakeClock(time.Unix(0, 0))
	server := newDrainingServer(webhook.NewServer(webhook.Options{
		Host: "127.0.0.1", Port: address.Port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &model.TLS.Certificates[0], nil }
		}},
	}), now)
	server.Register("/review", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	call := func(path string) (closes bool, err error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address.String()+path, strings.NewReader("{}"))
		require.NoError(t, err)
		answer, err := model.Client().Do(request)
		if err != nil {
			return false, err
		}
		require.Equal(t, http.StatusOK, answer.StatusCode)
		return answer.Close, answer.Body.Close()
	}
	require.Eventually(t, func() bool { _, err := call("/review"); return err == nil }, testtimeout.Scale(10*time.Second), 10*time.Millisecond)
	closes, err := call("/review")
	require.NoError(t, err)
	require.False(t, closes, "connections are kept")

	hooked := make(chan error, 1)
	go func() {
		_, err := call(drainPath)
		hooked <- err
	}()
	for _, done := range []chan error{hooked, ended} {
		require.Eventually(t, now.HasWaiters, testtimeout.Scale(10*time.Second), time.Millisecond)
		for range 3 {
			closes, err = call("/review")
			require.NoError(t, err)
			require.True(t, closes)
		}
		now.Step(drainTime)
		require.NoError(t, <-done)
		if done == hooked {
			closes, err = call("/review")
			require.NoError(t, err)
			require.False(t, closes, "somebody else called the hook: the server continues")
			end()
		}
	}
}

func TestAttack16BodiesAreBounded(t *testing.T) {
	t.Parallel()
	server := newDrainingServer(webhook.NewServer(webhook.Options{}), clocktesting.NewFakeClock(time.Unix(0, 0)))
	var read int64
	var err error
	server.Register("/convert", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { read, err = io.Copy(io.Discard, r.Body) }))
	post := func(size int64) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", io.LimitReader(zeros{}, size))
		server.WebhookMux().ServeHTTP(httptest.NewRecorder(), request)
	}
	const limit = 64 << 20 // A literal, because the constant in the code is under test.
	post(limit)
	require.NoError(t, err)
	require.EqualValues(t, limit, read)
	post(1 << 40)
	require.ErrorContains(t, err, "too large")
	require.EqualValues(t, limit, read)
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestChartsCallTheDrainPath(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"hub", "member"} {
		text, err := os.ReadFile("../../../charts/" + chart + "/templates/deployment.yaml")
		require.NoError(t, err)
		require.Contains(t, string(text), "preStop: {httpGet: {scheme: HTTPS, port: webhook, path: "+drainPath+"}}")
	}
}
