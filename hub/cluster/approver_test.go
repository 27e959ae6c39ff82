package cluster

import (
	"context"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// silent records no events.
type silent struct{}

func (silent) Record(runtime.Object, event.Event) {}

func TestRequestersAreRateLimited(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(noon)
	a := &approver{clock: clk, bucket: map[string]*rate.Limiter{}}
	for range requestsBurst {
		require.Zero(t, a.wait("kruise:member:west"))
	}
	require.Equal(t, requestsEvery, a.wait("kruise:member:west"), "requests beyond the burst have to wait")
	require.Zero(t, a.wait("kruise:member:east"), "and do not use up another member's limit")
	clk.SetTime(noon.Add(requestsEvery))
	require.Zero(t, a.wait("kruise:member:west"))
	require.Equal(t, requestsEvery, a.wait("kruise:member:west"))
}

func TestNonMembersShareOneLimit(t *testing.T) {
	t.Parallel()
	a := &approver{clock: clocktesting.NewFakePassiveClock(noon), bucket: map[string]*rate.Limiter{}}
	for i := range requestsBurst {
		require.Zero(t, a.wait(name(i)))
	}
	require.Equal(t, requestsEvery, a.wait("another user"))
	require.Len(t, a.bucket, 1, "the number of buckets does not grow with names that requesters choose")
}

// TestAttack04RequestsOfOthersTakeNoMemory and TestAttack04RateLimitComesFirst: a user who may create certificate requests creates many large
// ones.
func TestAttack04RequestsOfOthersTakeNoMemory(t *testing.T) {
	t.Parallel()
	a := validRequest(t)
	own := a.build(t)
	kept, err := stripRequest(own.DeepCopy())
	require.NoError(t, err)
	require.Equal(t, own.Spec, kept.(*certificatesv1.CertificateSigningRequest).Spec)
	require.Equal(t, own.Annotations, kept.(*certificatesv1.CertificateSigningRequest).Annotations)

	a.template.Subject = pkix.Name{CommonName: "bob"}
	foreign := a.build(t)
	foreign.Name, foreign.Annotations = "csr-bob", map[string]string{"note": strings.Repeat("a", 200_000)}
	kept, err = stripRequest(foreign)
	require.NoError(t, err)
	require.Less(t, kept.(*certificatesv1.CertificateSigningRequest).Size(), 100)
	require.Equal(t, "csr-bob", kept.(*certificatesv1.CertificateSigningRequest).Name)
	require.False(t, relevant(kept.(*certificatesv1.CertificateSigningRequest)), "a stripped request is still ignored")
}

func TestAttack04RateLimitComesFirst(t *testing.T) {
	t.Parallel()
	a := validRequest(t)
	a.template.Subject = pkix.Name{CommonName: "bob"}
	csr := a.build(t) // It has the name of a member's request.
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	api, reads := fake.NewClientBuilder().WithScheme(scheme).WithObjects(csr).Build(), 0
	live := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, opts...)
		},
	})
	answering := &approver{
		client: api, reader: live, clock: clocktesting.NewFakePassiveClock(noon), events: silent{}, meters: newMeters(),
		bucket: map[string]*rate.Limiter{},
	}
	for range 3 * requestsBurst {
		_, err := answering.Reconcile(t.Context(), request(csr.Name))
		require.NoError(t, err)
	}
	require.Equal(t, requestsBurst, reads, "a request beyond the limit costs no read of the apiserver")
}

func TestIdleRequestersAreForgotten(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(noon)
	a := &approver{clock: clk, bucket: map[string]*rate.Limiter{}}
	a.wait("kruise:member:west")
	clk.SetTime(noon.Add(time.Hour))
	a.wait("kruise:member:east")
	require.Len(t, a.bucket, 1)
}

func TestHolderIsAnotherClusterOfThatUID(t *testing.T) {
	t.Parallel()
	all := []fleetv1alpha1.MemberCluster{*settled().mc}
	require.Equal(t, "east", holder(all, "west", "uid"))
	require.Empty(t, holder(all, "east", "uid"), "the cluster itself does not count")
	require.Empty(t, holder(all, "west", "another"))
}

func TestRequestsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*requestCase)
		denied bool
	}{
		{"a request whose name only has our prefix is ignored", func(a *requestCase) { a.csr.Name = "fleet-dashboard" }, false},
		{"a request for another signer with a member's name is ignored", func(a *requestCase) { a.csr.Spec.SignerName = "example.com/signer" }, false},
		{"a request with the name of a member's request is denied", func(*requestCase) {}, true},
		{"an invalid request with the name of a member's request is denied", func(a *requestCase) {
			a.wrap = func([]byte) []byte { return []byte("x") }
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := validRequest(t)
			a.template.Subject = pkix.Name{CommonName: "bob", Organization: []string{"developers"}}
			c.change(a)
			csr := a.build(t)
			scheme := runtime.NewScheme()
			require.NoError(t, clientgoscheme.AddToScheme(scheme))
			require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
			var answer []certificatesv1.CertificateSigningRequestCondition
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(csr, a.mc).WithInterceptorFuncs(interceptor.Funcs{
				SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
					answer = o.(*certificatesv1.CertificateSigningRequest).Status.Conditions
					return nil
				},
			}).Build()
			judging := &approver{
				client: api, reader: api, clock: clocktesting.NewFakePassiveClock(noon), events: silent{}, meters: newMeters(),
				bucket: map[string]*rate.Limiter{},
			}
			_, err := judging.Reconcile(t.Context(), request(csr.Name))
			require.NoError(t, err)
			if !c.denied {
				require.Empty(t, answer)
				return
			}
			require.Len(t, answer, 1)
			require.Equal(t, certificatesv1.CertificateDenied, answer[0].Type)
		})
	}
}
