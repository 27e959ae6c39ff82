package link_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

const secret = "a-bearer-token"

// testServer is a server with a client for it.
type testServer struct {
	server *httptest.Server
	ca     []byte
	cfg    rest.Config
}

// newTestServer starts a server that answers all requests with handler; change modifies its certificate.
func newTestServer(t *testing.T, handler http.HandlerFunc, change func(*x509.Certificate)) *testServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	year := 365 * 24 * time.Hour
	begin := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "far"}, NotBefore: begin, NotAfter: begin.Add(100 * year),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(cert)
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	require.NoError(t, err)
	f := &testServer{server: httptest.NewUnstartedServer(handler), ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	f.server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	f.server.Config.ErrorLog = log.New(testWriter{t}, "", 0)
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	f.cfg = rest.Config{Host: f.server.URL, BearerToken: secret, TLSClientConfig: rest.TLSClientConfig{CAData: f.ca}}
	return f
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// call makes one request.
func (f *testServer) call(ctx context.Context) error {
	c, err := kubernetes.NewForConfig(&f.cfg)
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
	return err
}

// echo responds with a code and the content of the request, as a server that isn't an API server might.
func echo(code int, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		body := "<html>you are " + r.Header.Get("Authorization") + "</html>"
		if kind == "application/json" {
			body = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`,
				code, http.StatusText(code), "no: "+r.Header.Get("Authorization"))
		}
		_, _ = w.Write([]byte(body))
	}
}

func dialError(err error) func(*testing.T, *testServer) {
	return func(_ *testing.T, f *testServer) {
		f.cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 40123}, Err: err}
		}
	}
}

func TestCauseOf(t *testing.T) {
	t.Parallel()
	expired := func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(time.Hour) }
	later := func(c *x509.Certificate) { c.NotBefore = c.NotBefore.AddDate(80, 0, 0) }
	other := func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"other.example"} }
	for _, c := range []struct {
		name     string
		handler  http.HandlerFunc
		cert     func(*x509.Certificate)
		change   func(*testing.T, *testServer)
		want     link.Cause
		explains string
	}{
		{name: "a name that does not resolve", change: dialError(&net.DNSError{Err: "no such host", Name: "hub.invalid", IsNotFound: true}), want: link.NameNotResolved, explains: "does not resolve"},
		{name: "a DNS server that doesn't respond", change: dialError(&net.DNSError{Err: "timeout", Name: "hub.invalid", IsTimeout: true}), want: link.NameNotResolved, explains: "DNS"},
		{name: "an address where nothing listens", change: func(t *testing.T, f *testServer) { t.Helper(); f.server.Close() }, want: link.ConnectionRefused, explains: "nothing listens at"},
		{name: "no route", change: dialError(syscall.EHOSTUNREACH), want: link.Unreachable, explains: "can't be reached"},
		{name: "a dial that takes too long", change: dialError(context.DeadlineExceeded), want: link.TimedOut, explains: "does not answer in time"},
		{name: "a response that takes too long", handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: link.TimedOut, explains: "firewall"},
		{name: "a server without TLS", change: func(t *testing.T, f *testServer) {
			t.Helper()
			plain := httptest.NewServer(echo(200, "text/plain"))
			t.Cleanup(plain.Close)
			f.cfg.Host = "https://" + plain.Listener.Addr().String()
		}, want: link.NotTLS, explains: "port"},
		{name: "another CA", change: func(t *testing.T, f *testServer) { t.Helper(); f.cfg.CAData = newTestServer(t, echo(200, ""), nil).ca }, want: link.UnknownAuthority, explains: "was not signed by the given CA: check the CA"},
		{name: "a certificate for another name", cert: other, want: link.WrongName, explains: "other names"},
		{name: "an expired certificate", cert: expired, want: link.ServerCertificateExpired, explains: "has expired"},
		{name: "a certificate that is not valid yet", cert: later, want: link.ServerCertificateExpired, explains: "clocks"},
		{name: "a server that asks for a certificate", change: func(t *testing.T, f *testServer) {
			t.Helper()
			f.server.TLS.ClientAuth = tls.RequireAnyClientCert
		}, want: link.HandshakeRefused, explains: "handshake"},
		{name: "an unknown credential", handler: echo(401, "application/json"), want: link.Unauthorized, explains: "does not accept the token"},
		{name: "a web page that requires a login", handler: echo(401, "text/html"), want: link.Unauthorized, explains: "does not accept the token"},
		{name: "a credential without permissions", handler: echo(403, "application/json"), want: link.Forbidden, explains: "allows it nothing"},
		{name: "a web server without such a page", handler: echo(404, "text/html"), want: link.NotServed, explains: "does not serve the API"},
		{name: "a web server that returns a page", handler: echo(200, "text/html"), want: link.NotServed, explains: "does not serve the API"},
		{name: "an API server without such an object", handler: echo(404, "application/json"), want: ""},
		{name: "an API server that is starting", handler: echo(503, "application/json"), want: link.Failing, explains: "retrying"},
		{name: "a proxy without a backend", handler: echo(502, "text/html"), want: link.Failing, explains: "retrying"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			handler := c.handler
			if handler == nil {
				handler = echo(200, "application/json")
			}
			f := newTestServer(t, handler, c.cert)
			if c.change != nil {
				c.change(t, f)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := f.call(ctx)
			require.Error(t, err)
			require.Equal(t, c.want, link.CauseOf(err), "%v", err)
			require.Equal(t, c.want, link.CauseOf(fmt.Errorf("get: %w", err)), "wrapped")

			explanation := link.Peer{
				Name: "the hub", Address: "https://hub:6443", Authority: "the CA", Credential: "the token", Rights: "ask", API: "the API",
			}.Explain(c.want)
			require.Contains(t, explanation, c.explains)
			for _, never := range []string{secret, "40123", "10.0.0.1"} {
				require.NotContains(t, explanation, never)
			}
			scrubbed := link.Scrub(err, secret)
			require.NotContains(t, scrubbed.Error(), secret)
			require.Equal(t, c.want, link.CauseOf(scrubbed), "a scrubbed error keeps its type")
		})
	}
}

func TestEchoedCredentialsWouldBeSeen(t *testing.T) {
	t.Parallel()
	err := newTestServer(t, echo(403, "application/json"), nil).call(t.Context())
	require.ErrorContains(t, err, secret, "otherwise the test of Scrub proves nothing")
	require.True(t, apierrors.IsForbidden(link.Scrub(err, secret)))
}

func TestCausesHaveASentenceAndAKind(t *testing.T) {
	t.Parallel()
	require.Empty(t, link.CauseOf(nil))
	require.Empty(t, link.CauseOf(errors.New("boom")))
	require.Equal(t, link.ConnectionBroken, link.CauseOf(&url.Error{Op: "Get", URL: "https://hub", Err: io.EOF}))
	require.Equal(t, link.ConnectionBroken, link.CauseOf(&net.OpError{Op: "read", Err: syscall.ECONNRESET}))
	require.Empty(t, link.Peer{}.Explain(""))
	require.NoError(t, link.Scrub(nil, secret))
	boom := errors.New("boom")
	require.Equal(t, boom, link.Scrub(boom, secret, ""), "an error without a secret is not changed")
	kinds := map[link.Cause]string{
		link.NameNotResolved: "unanswered", link.ConnectionRefused: "unanswered", link.TimedOut: "unanswered", link.Unreachable: "unanswered",
		link.ConnectionBroken: "unanswered", link.NotTLS: "unanswered",
		link.UnknownAuthority: "untrusted", link.WrongName: "untrusted", link.ServerCertificateExpired: "untrusted",
		link.HandshakeRefused: "", link.Unauthorized: "", link.Forbidden: "", link.NotServed: "", link.Failing: "",
	}
	for c, kind := range kinds {
		require.NotEmpty(t, link.Peer{}.Explain(c), c)
		require.Equal(t, kind == "untrusted", c.Untrusted(), c)
		require.Equal(t, kind == "unanswered", c.Unanswered(), c)
	}
}

func TestPlainURLHoldsNothingSecret(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, address string
		want          bool
	}{
		{"a host", "https://hub.example", true},
		{"a host and a port", "https://10.0.0.1:6443", true},
		{"a path, as behind a proxy", "https://proxy.example/clusters/hub", true},
		{"no TLS", "http://hub.example", false},
		{"no scheme", "hub.example:6443", false},
		{"no host", "https:///path", false},
		{"a user and a password", "https://me:secret@hub.example", false},
		{"a query, which may hold a token", "https://hub.example?token=secret", false},
		{"a fragment", "https://hub.example#secret", false},
		{"not an address", "https://%zz", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, link.PlainURL(tc.address))
		})
	}
}
