package connect

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

const (
	testToken      = "a-join-token"
	testClusterUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
)

func testNow() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	now := testNow()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(100, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert: cert, key: key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) sign(t *testing.T, template *x509.Certificate, public crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	require.NoError(t, err)
	return der
}

// testHubServer fakes the hub's apiserver for joining: it authenticates by token or certificate, stores one certificate request,
// and signs or denies it when it is watched.
type testHubServer struct {
	t      *testing.T
	server *httptest.Server
	ca     *authority
	clock  *clocktesting.FakeClock
	// life is the lifetime of its certificates.
	life time.Duration

	mu       sync.Mutex
	deny     string
	down     bool // Answers 503.
	echo     int  // Answers with that code, and repeats the credential in the message, as no hub should.
	noCert   bool // Does not accept certificates.
	request  *certificatesv1.CertificateSigningRequest
	requests []certificatesv1.CertificateSigningRequest
	serial   int64
	// shown lists the serials of client certificates, one for the first request of each connection.
	shown []string
}

func newTestHub(t *testing.T) *testHubServer {
	t.Helper()
	h := &testHubServer{t: t, ca: newAuthority(t), clock: clocktesting.NewFakeClock(testNow()), life: time.Hour, serial: 100}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	now := testNow()
	leaf := h.ca.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "hub"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.AddDate(-50, 0, 0), NotAfter: now.AddDate(50, 0, 0), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public())
	h.server = httptest.NewUnstartedServer(h)
	h.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf, h.ca.cert.Raw}, PrivateKey: key}},
		ClientAuth:   tls.RequestClientCert,
		MinVersion:   tls.VersionTLS12,
	}
	h.server.EnableHTTP2 = true
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	return h
}

func (h *testHubServer) set(change func(h *testHubServer)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

func (h *testHubServer) fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	h.answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: string(reason),
	})
}

func (h *testHubServer) answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		h.t.Logf("answer: %v", err)
	}
}

// known reports whether the request presents the token or a certificate issued by this hub.
func (h *testHubServer) known(r *http.Request) bool {
	if len(r.TLS.PeerCertificates) > 0 && !h.noCert {
		h.shown = append(h.shown, r.TLS.PeerCertificates[0].SerialNumber.String())
		return r.TLS.PeerCertificates[0].CheckSignatureFrom(h.ca.cert) == nil
	}
	return r.Header.Get("Authorization") == "Bearer "+testToken
}

func (h *testHubServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	switch {
	case h.echo != 0:
		h.answer(w, h.echo, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(h.echo),
			Message: "not for " + r.Header.Get("Authorization"),
		})
	case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/kube-public/"):
		h.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case !h.known(r):
		h.fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case h.down:
		h.fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	case r.URL.Path == "/apis/fleet.kruise.io/v1alpha1/memberclusters/east":
		h.answer(w, http.StatusOK, fleetv1alpha1.MemberCluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: "MemberCluster"},
			ObjectMeta: metav1.ObjectMeta{Name: "east", UID: testClusterUID},
			Spec:       fleetv1alpha1.MemberClusterSpec{Pull: &fleetv1alpha1.PullAccess{CertTTLSeconds: 3600}},
		})
	case r.Method == http.MethodPost && r.URL.Path == csrs:
		h.request = &certificatesv1.CertificateSigningRequest{}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, h.request)
		}
		if err != nil {
			h.t.Errorf("read request: %v", err)
			h.fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		h.request.TypeMeta = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
		h.request.UID, h.request.ResourceVersion = "csr", "7"
		h.requests = append(h.requests, *h.request)
		h.answer(w, http.StatusCreated, h.request)
	case r.URL.Path == csrs+"/fleet-east" && h.request == nil:
		h.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet && r.URL.Path == csrs+"/fleet-east":
		h.answer(w, http.StatusOK, h.request)
	case r.Method == http.MethodDelete && r.URL.Path == csrs+"/fleet-east":
		body, err := io.ReadAll(r.Body)
		options := &metav1.DeleteOptions{}
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, options)
		}
		if err != nil || options.Preconditions == nil || *options.Preconditions.UID != "csr" {
			h.t.Errorf("another request of that name would be deleted: %v, %v", options.Preconditions, err)
		}
		h.request = nil
		h.answer(w, http.StatusOK, metav1.Status{Status: metav1.StatusSuccess})
	case r.URL.Query().Get("watch") != "" && r.URL.Path == csrs:
		h.watch(w, r)
	default:
		h.t.Errorf("unexpected request %s %s", r.Method, r.URL)
		h.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// watch answers with the signed or denied request.
func (h *testHubServer) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("fieldSelector") != "metadata.name=fleet-east" || r.URL.Query().Get("resourceVersion") != "7" {
		h.t.Errorf("the watch is not for the one request from where it was made: %s", r.URL)
	}
	if h.deny != "" {
		h.request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "Refused", Message: h.deny,
		}}
	} else {
		h.request.Status.Certificate = h.issue(h.request.Spec.Request)
	}
	h.answer(w, http.StatusOK, map[string]any{"type": "MODIFIED", "object": h.request})
}

func (h *testHubServer) issue(request []byte) []byte {
	block, _ := pem.Decode(request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		h.t.Errorf("parse request: %v", err)
		return nil
	}
	h.serial++
	now := h.clock.Now()
	der := h.ca.sign(h.t, &x509.Certificate{
		SerialNumber: big.NewInt(h.serial), Subject: csr.Subject, NotBefore: now, NotAfter: now.Add(h.life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, csr.PublicKey)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (h *testHubServer) options(t *testing.T) Options {
	t.Helper()
	kinds := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(kinds))
	require.NoError(t, fleetv1alpha1.AddToScheme(kinds))
	member := fake.NewClientBuilder().WithScheme(kinds).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster-1"}},
	).Build()
	return Options{
		Cluster: "east", URL: h.server.URL, CA: h.ca.pem(), Token: token(testToken),
		Reader: member, SecretClient: member, Namespace: "flotilla-system", Clock: h.clock,
	}
}

// token returns a file that holds a token.
func token(text string) func() (string, error) {
	return func() (string, error) { return text, nil }
}

// get makes one request with the connection, as a client of the hub would.
func get(t *testing.T, c *Connection) error {
	t.Helper()
	hub, err := hubClient(c.Config)
	require.NoError(t, err)
	return hub.Get(t.Context(), client.ObjectKey{Name: "east"}, &fleetv1alpha1.MemberCluster{})
}

func (c *Connection) closeForTest() { c.dialer.CloseAll() }

func TestJoinRequestsExactlyWhatTheApproverAccepts(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	o := hub.options(t)
	c, err := Connect(t.Context(), o)
	require.NoError(t, err)
	defer c.closeForTest()

	require.Len(t, hub.requests, 1)
	asked := hub.requests[0]
	require.Equal(t, "fleet-east", asked.Name)
	require.Equal(t, "cluster-1", asked.Annotations[link.AnnotationClusterUID])
	require.Equal(t, certificatesv1.KubeAPIServerClientSignerName, asked.Spec.SignerName)
	require.EqualValues(t, 3600, *asked.Spec.ExpirationSeconds)
	require.Equal(t, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, asked.Spec.Usages)
	block, rest := pem.Decode(asked.Spec.Request)
	require.Empty(t, rest)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)
	require.NoError(t, csr.CheckSignature())
	require.Equal(t, "kruise:member:east:7c9e6679", csr.Subject.CommonName, "the subject has the beginning of the MemberCluster's UID")
	require.ElementsMatch(t, []string{"kruise:members", "kruise:member:east:7c9e6679"}, csr.Subject.Organization)
	require.Len(t, csr.Subject.Names, 3, "nothing else in the subject")
	require.Empty(t, csr.Extensions)
	require.Equal(t, x509.ECDSA, csr.PublicKeyAlgorithm)

	secret := &corev1.Secret{}
	require.NoError(t, o.Reader.Get(t.Context(), client.ObjectKey{Namespace: "flotilla-system", Name: credentialSecret}, secret))
	require.Equal(t, corev1.SecretTypeTLS, secret.Type)
	require.NoError(t, get(t, c))
	s := c.Credential()
	require.Equal(t, "65", s.Serial, "101 in hexadecimal")
	require.True(t, s.NotAfter.Equal(&metav1.Time{Time: testNow().Add(time.Hour)}))
}

func TestConnectUsesTheStoredCertificate(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	o := hub.options(t)
	first, err := Connect(t.Context(), o)
	require.NoError(t, err)
	first.closeForTest()
	o.Token = nil
	second, err := Connect(t.Context(), o)
	require.NoError(t, err)
	defer second.closeForTest()
	require.Len(t, hub.requests, 1, "no second request")
	require.NoError(t, get(t, second))
	require.NoError(t, second.Forget(t.Context()))
	_, err = Connect(t.Context(), o)
	require.ErrorIs(t, err, ErrNoCredential)
}

func TestConnectExplainsFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		change  func(t *testing.T, h *testHubServer, o *Options)
		is      error
		reason  string
		message string
	}{
		{
			name:   "a wrong or used token",
			change: func(_ *testing.T, _ *testHubServer, o *Options) { o.Token = token("used") },
			is:     ErrUnauthorized, reason: "Unauthorized", message: "kubectl kruise cluster token east",
		},
		{
			name:   "no token and no certificate",
			change: func(_ *testing.T, _ *testHubServer, o *Options) { o.Token = nil },
			is:     ErrNoCredential, reason: reasonNoCredential, message: "kubectl kruise cluster token east",
		},
		{
			name:   "a CA of another hub",
			change: func(t *testing.T, _ *testHubServer, o *Options) { t.Helper(); o.CA = newAuthority(t).pem() },
			is:     errUntrusted, reason: "UnknownAuthority", message: "check the hub's CA",
		},
		{
			name: "a hash of another CA",
			change: func(t *testing.T, _ *testHubServer, o *Options) {
				t.Helper()
				o.CA, o.CAHash = nil, caHash(newAuthority(t).cert)
			},
			is: errUntrusted, reason: "UnknownAuthority", message: "none of the 2 certificates",
		},
		{
			name:   "a hash that does not fit the given CA",
			change: func(t *testing.T, _ *testHubServer, o *Options) { t.Helper(); o.CAHash = caHash(newAuthority(t).cert) },
			is:     errUntrusted, reason: "UnknownAuthority", message: "the given CA",
		},
		{
			name: "an address that is not in the hub's certificate",
			change: func(_ *testing.T, _ *testHubServer, o *Options) {
				o.URL = strings.Replace(o.URL, "127.0.0.1", "localhost", 1)
			},
			is: errUntrusted, reason: "WrongName", message: "a certificate for other names",
		},
		{
			name:   "an address without a server",
			change: func(t *testing.T, _ *testHubServer, o *Options) { t.Helper(); o.URL = "https://" + closedPort(t) },
			is:     errUnreachable, reason: "ConnectionRefused", message: "check the address and the network",
		},
		{
			name: "a pinned CA of an address without a server",
			change: func(t *testing.T, h *testHubServer, o *Options) {
				t.Helper()
				o.CA, o.CAHash, o.URL = nil, caHash(h.ca.cert), "https://"+closedPort(t)
			},
			is: errUnreachable, reason: "ConnectionRefused", message: "check the address and the network",
		},
		{
			name: "an address that does not speak TLS",
			change: func(t *testing.T, _ *testHubServer, o *Options) {
				t.Helper()
				plain := httptest.NewServer(http.NotFoundHandler())
				t.Cleanup(plain.Close)
				o.URL = "https://" + plain.Listener.Addr().String()
			},
			is: errUnreachable, reason: "NotTLS", message: "without TLS",
		},
		{
			name: "an address of a server that is not a hub",
			change: func(t *testing.T, h *testHubServer, _ *Options) {
				t.Helper()
				h.server.Config.Handler = http.NotFoundHandler()
			},
			reason: "NotServed", message: "that chart flotilla-hub is installed there",
		},
		{
			name:   "a token of another cluster of the hub",
			change: func(_ *testing.T, h *testHubServer, _ *Options) { h.echo = http.StatusForbidden },
			reason: "Forbidden", message: "kubectl kruise cluster accept east",
		},
		{
			name:   "a server that answers with the credential",
			change: func(_ *testing.T, h *testHubServer, _ *Options) { h.echo = http.StatusUnauthorized },
			is:     ErrUnauthorized, reason: "Unauthorized", message: "[removed]",
		},
		{
			name:   "a server that fails with the credential",
			change: func(_ *testing.T, h *testHubServer, _ *Options) { h.echo = http.StatusInternalServerError },
			reason: "Failing", message: "[removed]",
		},
		{
			name:   "a hub without such a cluster",
			change: func(_ *testing.T, h *testHubServer, _ *Options) { h.echo = http.StatusNotFound },
			reason: reasonUnknownCluster, message: "check hub.cluster",
		},
		{
			name:   "a hub that refuses",
			change: func(_ *testing.T, h *testHubServer, _ *Options) { h.deny = "another cluster has this name" },
			is:     errDenied, reason: reasonRequestDenied, message: "another cluster has this name",
		},
		{
			name:   "an address without TLS",
			change: func(_ *testing.T, _ *testHubServer, o *Options) { o.URL = "http://hub.example" },
			reason: ReasonInvalidOptions, message: "must be https://",
		},
		{
			name:   "an address with a password",
			change: func(_ *testing.T, _ *testHubServer, o *Options) { o.URL = "https://me:" + testToken + "@hub.example" },
			reason: ReasonInvalidOptions, message: "without user",
		},
		{
			name:   "an invalid address",
			change: func(_ *testing.T, _ *testHubServer, o *Options) { o.URL = "https://me:" + testToken + "@hub example" },
			reason: ReasonInvalidOptions, message: "check hub.url",
		},
		{
			name:   "no CA at all",
			change: func(_ *testing.T, _ *testHubServer, o *Options) { o.CA = nil },
			reason: ReasonInvalidOptions, message: "provide the CA or its hash",
		},
		{
			name:   "an invalid CA",
			change: func(_ *testing.T, _ *testHubServer, o *Options) { o.CA = []byte("-----BEGIN CERTIFICATE-----") },
			reason: ReasonInvalidOptions, message: "no PEM certificate",
		},
		{
			name:   "a hash of another form",
			change: func(_ *testing.T, _ *testHubServer, o *Options) { o.CAHash = "md5:00" },
			reason: ReasonInvalidOptions, message: "64 hexadecimal digits",
		},
		{
			name:   "a hub that does not work",
			change: func(_ *testing.T, h *testHubServer, _ *Options) { h.down = true },
			reason: "Failing", message: "ServiceUnavailable",
		},
		{
			name: "a token that can't be read",
			change: func(_ *testing.T, _ *testHubServer, o *Options) {
				o.Token = func() (string, error) { return "", errors.New("disk on fire at 12:00:01") }
			},
			message: "disk on fire",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			hub := newTestHub(t)
			o := hub.options(t)
			tc.change(t, hub, &o)
			_, err := Connect(t.Context(), o)
			require.ErrorContains(t, err, tc.message)
			for _, sentinel := range []error{ErrNoCredential, ErrUnauthorized, errUntrusted, errUnreachable, errDenied, errExpired} {
				if sentinel == tc.is { //nolint:errorlint // The very value is meant.
					require.ErrorIs(t, err, sentinel)
				} else {
					require.NotErrorIs(t, err, sentinel)
				}
			}
			require.NotContains(t, err.Error(), testToken)
			var explained *Error
			require.Equal(t, tc.reason != "", errors.As(err, &explained))
			if explained != nil {
				require.Equal(t, tc.reason, explained.Reason)
				require.NotContains(t, explained.Message, testToken)
			}
		})
	}
}

func TestAHubThatDoesNotSignIsReported(t *testing.T) {
	t.Parallel()
	o := newTestHub(t).options(t)
	err := o.explain(errors.Join(errNotSigned, context.DeadlineExceeded), credential{description: "the token"})
	var explained *Error
	require.ErrorAs(t, err, &explained)
	require.Equal(t, reasonNotSigned, explained.Reason)
	require.NotErrorIs(t, err, errUnreachable)
}

// closedPort returns an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

func TestAPinnedCAIsFetchedAndUsed(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	o := hub.options(t)
	o.CA, o.CAHash = nil, strings.ToUpper(caHash(hub.ca.cert)[len("sha256:"):])
	o.CAHash = "sha256:" + o.CAHash
	c, err := Connect(t.Context(), o)
	require.NoError(t, err)
	defer c.closeForTest()
	require.NoError(t, get(t, c))
}

func TestClusterInfoOfKubeadmShowsTheCA(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	kubeconfig := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"","cluster":{"server":"https://hub","certificate-authority-data":%s}}]}`, mustJSON(t, ca.pem()))
	found := clusterInfo([]byte(mustJSON(t, corev1.ConfigMap{Data: map[string]string{"kubeconfig": kubeconfig}})))
	require.Len(t, found, 1)
	require.Equal(t, caHash(ca.cert), caHash(found[0]))
	require.Empty(t, clusterInfo([]byte("<html>")))
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// I42: the certificate is renewed at 70 % of its lifetime; connections that were opened with the old one are closed.
func TestRotationReplacesCertificateAndConnections(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	c, err := Connect(t.Context(), hub.options(t))
	require.NoError(t, err)
	defer c.closeForTest()
	require.NoError(t, get(t, c))
	require.Equal(t, "101", hub.lastShown())

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for serial := 102; serial < 105; serial++ {
		hub.waitForTimer(t)
		hub.clock.Step(43 * time.Minute) // More than 70 % of an hour.
		// A kept connection would still present the old certificate. Open connections are closed just after the change, and may still serve a
		// request in between, or break during one.
		require.Eventually(t, func() bool {
			return c.Credential().Serial == fmt.Sprintf("%x", serial) && get(t, c) == nil && hub.lastShown() == strconv.Itoa(serial)
		}, testtimeout.Scale(10*time.Second), 5*time.Millisecond)
	}
	cancel()
	require.NoError(t, <-ended)
}

func TestAFailedRenewalIsRetriedUntilExpiry(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	c, err := Connect(t.Context(), hub.options(t))
	require.NoError(t, err)
	defer c.closeForTest()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()

	hub.set(func(h *testHubServer) { h.down = true })
	hub.waitForTimer(t)
	hub.clock.Step(43 * time.Minute)
	hub.waitForTimer(t)
	hub.set(func(h *testHubServer) { h.down = false })
	hub.clock.Step(firstRenewWait)
	require.Eventually(t, func() bool { return c.Credential().Serial == "66" }, testtimeout.Scale(10*time.Second), 5*time.Millisecond)

	hub.set(func(h *testHubServer) { h.noCert = true })
	hub.waitForTimer(t)
	hub.clock.Step(2 * time.Hour)
	err = <-ended
	require.ErrorIs(t, err, errExpired)
	require.ErrorIs(t, err, ErrUnauthorized)
}

func TestARefusedCertificateGivesWayToAToken(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	o := hub.options(t)
	c, err := Connect(t.Context(), o)
	require.NoError(t, err)
	c.closeForTest()
	hub.set(func(h *testHubServer) { h.noCert = true })
	withoutToken := o
	withoutToken.Token = nil
	_, err = Connect(t.Context(), withoutToken)
	require.ErrorIs(t, err, ErrUnauthorized)
	c, err = Connect(t.Context(), o)
	require.NoError(t, err)
	defer c.closeForTest()
	require.Equal(t, "66", c.Credential().Serial, "a new certificate is signed for the token")
}

func TestAStoredCertificateOfAnotherClusterOrTimeIsIgnored(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	o := hub.options(t)
	c, err := Connect(t.Context(), o)
	require.NoError(t, err)
	c.closeForTest()

	o.Token = nil
	other := o
	other.Cluster = "west"
	_, err = Connect(t.Context(), other)
	require.ErrorIs(t, err, ErrNoCredential)
	hub.clock.Step(61 * time.Minute)
	_, err = Connect(t.Context(), o)
	require.ErrorIs(t, err, ErrNoCredential)
}

func TestANewTokenIsReadAtTheNextAttempt(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	o := hub.options(t)
	file := "used"
	o.Token = func() (string, error) { return file, nil }
	_, err := Connect(t.Context(), o)
	require.ErrorIs(t, err, ErrUnauthorized)
	file = testToken
	c, err := Connect(t.Context(), o)
	require.NoError(t, err)
	c.closeForTest()

	hub.clock.Step(2 * time.Hour)
	o.Token = func() (string, error) { return "", errors.New("the file can't be read") }
	_, err = Connect(t.Context(), o)
	require.ErrorContains(t, err, "the file can't be read")
	o.Token = token(testToken)
	c, err = Connect(t.Context(), o)
	require.NoError(t, err, "an expired certificate is replaced by the token")
	c.closeForTest()
}

func TestReleaseIsCalledOnlyWithoutACertificate(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	o := hub.options(t)
	released := 0
	o.Release = func(context.Context) error { released++; return nil }
	c, err := Connect(t.Context(), o)
	require.NoError(t, err)
	c.closeForTest()
	require.Equal(t, 1, released)
	c, err = Connect(t.Context(), o)
	require.NoError(t, err, "a reachable hub decides")
	c.closeForTest()
	require.Equal(t, 1, released)

	hub.set(func(h *testHubServer) { h.noCert = true })
	o.Release = func(context.Context) error { return link.ErrLeft }
	_, err = Connect(t.Context(), o)
	require.ErrorIs(t, err, link.ErrLeft, "a refused certificate counts as none")
}

func TestAttack31AConnectionThatEndedHasNoSeries(t *testing.T) {
	t.Parallel()
	const cluster = "series"
	certificateEnds.WithLabelValues(cluster).Set(1)
	connectFailures.WithLabelValues(cluster, "Denied").Inc()
	forgetMetrics(cluster)
	require.False(t, certificateEnds.DeleteLabelValues(cluster))
	require.False(t, connectFailures.DeleteLabelValues(cluster, "Denied"))
}

func TestRenewAtIsSpreadAndNeverLate(t *testing.T) {
	t.Parallel()
	c := &Connection{}
	c.current.Store(&tls.Certificate{Leaf: &x509.Certificate{NotBefore: testNow(), NotAfter: testNow().Add(1000 * time.Minute)}})
	require.WithinDuration(t, testNow().Add(700*time.Minute), c.renewAt(0), time.Second)
	require.WithinDuration(t, testNow().Add(650*time.Minute), c.renewAt(1), time.Second)
}

func (h *testHubServer) lastShown() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.shown) == 0 {
		return ""
	}
	return h.shown[len(h.shown)-1]
}

// waitForTimer waits until something waits for the clock.
func (h *testHubServer) waitForTimer(t *testing.T) {
	t.Helper()
	require.Eventually(t, h.clock.HasWaiters, testtimeout.Scale(10*time.Second), time.Millisecond)
}

func TestTheConfigKeepsNoSecretOutsideItsTransport(t *testing.T) {
	t.Parallel()
	hub := newTestHub(t)
	c, err := Connect(t.Context(), hub.options(t))
	require.NoError(t, err)
	defer c.closeForTest()
	require.Empty(t, c.Config.BearerToken)
	require.Equal(t, rest.TLSClientConfig{}, c.Config.TLSClientConfig)
}
