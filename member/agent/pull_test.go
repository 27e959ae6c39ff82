package agent

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/member/agent/connect"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// newTestPuller returns the puller of a member that has neither a token nor a certificate. Its hub answers nothing.
func newTestPuller(t *testing.T) (*puller, *testkit.Events) {
	t.Helper()
	hub := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(hub.Close)
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	member := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster-1"}},
	).WithStatusSubresource(&fleetv1alpha1.Membership{}).Build()
	events := &testkit.Events{}
	return newPuller(Options{Options: connect.Options{
		Cluster: "east", URL: hub.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hub.Certificate().Raw}),
		SecretClient: member, Namespace: "flotilla-system", Clock: clocktesting.NewFakeClock(testNow()),
	}}, member, events), events
}

// bind creates a Membership, with or without an annotation for the agent.
func (p *puller) bind(t *testing.T, annotation string, change func(*fleetv1alpha1.Membership)) {
	t.Helper()
	m := testMembership()
	m.Spec.Hub.Cluster, m.Spec.Hub.URL = p.options.Cluster, p.options.URL
	if annotation != "" {
		m.Annotations = map[string]string{link.AnnotationRelease: annotation}
	}
	if change != nil {
		change(m)
	}
	require.NoError(t, p.member.Create(t.Context(), m))
}

func TestAFailureToConnectIsReportedInTheMember(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, reason, message string
		token                 func() (string, error)
	}{
		{name: "a failure with an explanation", reason: "NoCredential", message: "kubectl kruise cluster token east"},
		{
			name: "a failure whose details change", reason: reasonConnectFailed, message: "see the log",
			token: func() (string, error) { return "", errors.New("disk on fire at 12:00:01") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, events := newTestPuller(t)
			p.options.Token = tc.token
			_, err := p.connect(t.Context())
			require.Error(t, err)
			m, err := getMembership(t.Context(), p.member)
			require.NoError(t, err)
			require.Nil(t, boundMembership(m), "reporting does not bind")
			condition := report.GetCondition(m.Status.Conditions, fleetv1alpha1.ConditionConnected)
			require.Equal(t, metav1.ConditionFalse, condition.Status)
			require.Equal(t, tc.reason, condition.Reason)
			require.Contains(t, condition.Message, tc.message)
			require.NotContains(t, condition.Message, "12:00:01", "changing details are only logged")

			_, err = p.connect(t.Context())
			require.Error(t, err)
			again, err := getMembership(t.Context(), p.member)
			require.NoError(t, err)
			require.Equal(t, m.ResourceVersion, again.ResourceVersion, "an unchanged report is not written again")
			require.Empty(t, events.Lines())
		})
	}
}

func TestABindingToAnotherHubIsUnchanged(t *testing.T) {
	t.Parallel()
	p, events := newTestPuller(t)
	p.bind(t, "", func(m *fleetv1alpha1.Membership) { m.Spec.Hub.Cluster = "elsewhere" })
	before, err := getMembership(t.Context(), p.member)
	require.NoError(t, err)
	_, err = p.connect(t.Context())
	require.ErrorIs(t, err, connect.ErrNoCredential)
	after, err := getMembership(t.Context(), p.member)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Len(t, events.Lines(), 1)
	require.Contains(t, events.Lines()[0], EventHubRefused)
	require.Contains(t, events.Lines()[0], "get a token")
}

func TestReleaseByTheMembersAdministrator(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, annotation string
		change           func(*fleetv1alpha1.Membership)
		wantErr          error
		message          string
		gone             bool
	}{
		{name: "without the annotation nothing happens", wantErr: connect.ErrNoCredential, message: "annotate membership default fleet.kruise.io/release"},
		{name: "the annotation ends the membership", annotation: "Orphan", wantErr: link.ErrLeft, gone: true},
		{name: "another value is not accepted", annotation: "yes", message: "must be Orphan or Delete"},
		{
			name: "a binding to another hub stays", annotation: "Delete", wantErr: connect.ErrNoCredential,
			change: func(m *fleetv1alpha1.Membership) { m.Spec.Hub.Cluster = "west" },
		},
		{
			name: "a binding to a push hub stays", annotation: "Delete", wantErr: connect.ErrNoCredential,
			change: func(m *fleetv1alpha1.Membership) { m.Spec.Hub.URL = "" },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, _ := newTestPuller(t)
			p.bind(t, tc.annotation, tc.change)
			_, err := p.connect(t.Context())
			if tc.wantErr != nil {
				require.ErrorIs(t, err, tc.wantErr)
			}
			require.ErrorContains(t, err, tc.message)
			left, err := getMembership(t.Context(), p.member)
			require.NoError(t, err)
			require.Equal(t, tc.gone, left == nil)
		})
	}
}

func TestAnUnreachableHubIsRetriedAndNeverFailsTheManager(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(testNow())
	attempts := make(chan struct{})
	member := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Namespace); ok { // Each attempt first reads this cluster's identity.
				attempts <- struct{}{}
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	p := newPuller(Options{Options: connect.Options{Cluster: "east", URL: "https://127.0.0.1:1", CAHash: "sha256:", Clock: clk}}, member, &testkit.Events{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()

	<-attempts
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		require.Eventually(t, clk.HasWaiters, testtimeout.Scale(time.Minute), time.Millisecond)
		clk.Step(wait - time.Millisecond)
		require.True(t, clk.HasWaiters(), "the wait doubles")
		clk.Step(time.Millisecond)
		<-attempts
	}
	cancel()
	require.NoError(t, <-ended)
}

func TestAttack22AgentActsAsItsOwnAccount(t *testing.T) {
	t.Parallel()
	manager := &rest.Config{Host: "https://10.0.0.1", BearerTokenFile: "token"}
	require.Equal(t, rest.ImpersonationConfig{UserName: "system:serviceaccount:ships:flotilla-agent"}, asAgent(manager, "ships").Impersonate)
	require.Zero(t, manager.Impersonate, "the manager's own requests are not impersonated")
}
