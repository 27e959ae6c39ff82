package member

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/pkg/setup"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSchemeKnowsAllVersions(t *testing.T) {
	t.Parallel()
	s, err := Scheme()
	require.NoError(t, err)
	for _, o := range []client.Object{&appsv1beta1.CloneSet{}, &appsv1alpha1.CloneSet{}, &fleetv1alpha1.Membership{}} {
		_, _, err := s.ObjectKinds(o)
		require.NoError(t, err)
	}
}

// counter counts attempts to connect: each one first reads this cluster's identity.
type counter struct {
	client.Reader
	tries chan struct{}
}

func (c counter) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.Namespace); ok {
		c.tries <- struct{}{}
	}
	return c.Reader.Get(ctx, key, o, opts...)
}

func TestAnUnreachableHubIsRetriedAndNeverFailsTheManager(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	tries := make(chan struct{})
	p := &puller{
		hub: agent.Options{
			Cluster: "east", URL: "https://127.0.0.1:1", CAHash: "sha256:", Clock: clk,
			Reader: counter{Reader: fake.NewClientBuilder().Build(), tries: tries},
		},
		options: Options{Options: setup.Options{Clock: clk}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()

	<-tries
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		require.Eventually(t, clk.HasWaiters, testtimeout.Scale(time.Minute), time.Millisecond)
		clk.Step(wait - time.Millisecond)
		require.True(t, clk.HasWaiters(), "the wait doubles")
		clk.Step(time.Millisecond)
		<-tries
	}
	cancel()
	require.NoError(t, <-ended)
}

func TestAttack22AgentActsAsItsOwnAccount(t *testing.T) {
	t.Parallel()
	manager := &rest.Config{Host: "https://10.0.0.1", BearerTokenFile: "token"}
	require.Equal(t, rest.ImpersonationConfig{UserName: "system:serviceaccount:ships:flotilla-agent"}, asAgent(manager, "ships").Impersonate)
	require.Zero(t, manager.Impersonate, "the manager's own requests are its own")
}
