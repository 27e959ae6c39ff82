package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

func TestTargetOf(t *testing.T) {
	t.Parallel()
	mc := push(settled()).mc
	require.Nil(t, targetOf(mc, false), "no connection unless planned")
	plain := targetOf(mc, true)
	require.Equal(t, "uid", plain.identity)
	mc.Spec.Limits = &fleetv1alpha1.ClusterLimits{QPS: 5, Burst: 6}
	require.NotEqual(t, *plain, *targetOf(mc, true), "changed limits restart the connection")
}

func TestProblemsAreTheSameAtEachAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{errOtherCluster, "a different cluster"},
		{fmt.Errorf("get: %w", apierrors.NewUnauthorized("token abc")), "does not accept the credential in the kubeconfig"},
		{apierrors.NewForbidden(corev1.Resource("namespaces"), "kube-system", errors.New("no")), "lacks rights"},
		{fmt.Errorf("get: %w", x509.UnknownAuthorityError{}), "was not signed by the given CA: check certificate-authority-data"},
		{fmt.Errorf("get: %w", x509.HostnameError{Host: "abc", Certificate: &x509.Certificate{}}), "a certificate for other names"},
		{fmt.Errorf("get: %w", x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{}}), "has expired"},
		{&net.DNSError{Err: "no such host", Name: "abc"}, "does not resolve"},
		{&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "fleet.kruise.io", Kind: "AppliedWork"}}, "install chart flotilla-member"},
		{&net.OpError{Op: "dial", Addr: &net.TCPAddr{Port: 40123}, Err: errors.New("refused")}, "can't be reached"},
		{fmt.Errorf("not following tombstone left-abc: %w", &link.EpochError{Seen: 4}), "the member has seen epoch 4"},
		{errors.New("boom at 12:00:01"), "see the hub's log"},
	} {
		require.Contains(t, problem(c.err), c.want)
		require.NotContains(t, problem(c.err), "abc")
		require.NotContains(t, problem(c.err), "40123")
	}
}

// hubWithScheme has only a scheme. A session needs nothing else from the hub before the member has answered.
type hubWithScheme struct{ cluster.Cluster }

func (hubWithScheme) GetScheme() *runtime.Scheme { return clientgoscheme.Scheme }

func TestSessionsTryAgainWithAPause(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 16)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	clk := clocktesting.NewFakeClock(noon)
	rung := make(chan string, 16)
	p := &pusher{
		hub: hubWithScheme{}, clock: clk, meters: newMeters(), changed: func(c string) { rung <- c },
		wake: make(chan struct{}, 1), wanted: map[string]target{"west": {}}, states: map[string]pushState{},
	}
	cfg := &rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
	end := p.startSessions(t.Context(), "west", target{cluster: "west", identity: "uid"}, cfg)
	require.Equal(t, "Bearer t", <-asked)
	require.Equal(t, "west", <-rung)
	require.Contains(t, p.State("west").problem, "does not accept the credential")
	require.Equal(t, link.Unauthorized, p.State("west").cause)
	require.Eventually(t, clk.HasWaiters, testtimeout.Scale(5*time.Second), time.Millisecond)
	require.Empty(t, asked, "no second attempt before the pause is over")
	clk.Step(sessionFirst * 2)
	<-asked
	require.Empty(t, rung, "the same problem is not reported again")
	end()
	server.CloseClientConnections()
}

func TestPusherForgetsWhatIsNotWanted(t *testing.T) {
	t.Parallel()
	p := &pusher{
		changed: func(string) {}, wake: make(chan struct{}, 1), wanted: map[string]target{}, states: map[string]pushState{},
	}
	p.Set("west", &target{identity: "a"})
	<-p.wake
	p.Set("west", &target{identity: "a"})
	require.Empty(t, p.wake, "the same target is not a change")
	p.updateState("west", func(s *pushState) { s.checked = true })
	require.True(t, p.State("west").checked)
	p.Set("west", nil)
	<-p.wake
	p.updateState("west", func(s *pushState) { s.checked = true })
	require.Equal(t, pushState{}, p.State("west"), "a late report of an ended connection is dropped")
}

func TestPusherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := &pusher{
		changed: func(string) {}, wake: make(chan struct{}, 1), wanted: map[string]target{}, states: map[string]pushState{},
		namespaces: []string{"flotilla-system"},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Start(ctx) }()
	p.Set("west", &target{secret: fleetv1alpha1.SecretKeyRef{Namespace: "kube-system", Name: "x", Key: "value"}})
	require.Eventually(t, func() bool { return p.State("west").checked }, testtimeout.Scale(5*time.Second), time.Millisecond)
	require.Equal(t, reasonKubeconfigRefused, p.State("west").refused.reason, "a Secret in another namespace is not requested")
	cancel()
	require.NoError(t, <-ended)
}
