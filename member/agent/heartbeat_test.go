package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// configured has only a configuration, which is all that /readyz needs.
type configured struct {
	cluster.Cluster
	config *rest.Config
}

func (c configured) GetConfig() *rest.Config { return c.config }

func (c configured) GetHTTPClient() *http.Client {
	h, err := rest.HTTPClientFor(c.config)
	utilruntime.Must(err)
	return h
}

func TestReadyzErrorsAreReportedWithoutTheCredential(t *testing.T) {
	t.Parallel()
	const secret = "a-token"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte("[-]etcd failed for " + r.Header.Get("Authorization")))
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, BearerToken: secret}
	h := newTestHeartbeat(t, cfg)
	err := h.ready(t.Context())
	require.ErrorContains(t, err, "[-]etcd failed for Bearer [removed]")
	require.NotContains(t, err.Error(), secret)
}

// TestAHeartbeatIsNotHeldUpByTheLimitsOfTheCluster uses a member whose rows have used up what its MemberCluster allows for an hour.
func TestAHeartbeatIsNotHeldUpByTheLimitsOfTheCluster(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	throttle := flowcontrol.NewTokenBucketRateLimiter(1./3600, 1)
	require.True(t, throttle.TryAccept())
	h := newTestHeartbeat(t, &rest.Config{Host: server.URL, RateLimiter: throttle})
	require.ErrorContains(t, h.ready(t.Context()), "the server could not find the requested resource", "the member answered")
}

// newTestHeartbeat returns a heartbeat of a member.
func newTestHeartbeat(t *testing.T, cfg *rest.Config) *heartbeat {
	t.Helper()
	member := configured{config: cfg}
	c, err := heartbeatClient(member)
	require.NoError(t, err)
	return &heartbeat{link: link.Link{Member: member}, member: c}
}

// answering has only a client.
type answering struct {
	cluster.Cluster
	client client.Client
}

func (a answering) GetClient() client.Client { return a.client }

func TestI20RevisionOfTheHubThatGoesBackEndsTheConnection(t *testing.T) {
	t.Parallel()
	revision := ""
	hub := interceptor.NewClient(nil, interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			o.SetResourceVersion(revision)
			return nil
		},
	})
	h := &heartbeat{link: link.Link{Cluster: "east", Clock: clock.RealClock{}, Hub: answering{client: hub}}}
	for _, step := range []struct {
		revision string
		back     bool
	}{{"99", false}, {"100", false}, {"100", false}, {"1000", false}, {"999", true}, {"1001", false}} {
		revision = step.revision
		err := h.renew(t.Context())
		if step.back {
			require.ErrorIs(t, err, errHubRestored, "revision %s", revision)
		} else {
			require.NoError(t, err, "revision %s", revision)
		}
	}
}

// TestI39AHubOfTheVersionBeforeGetsNoKinds uses a hub whose MemberCluster has no field for kinds.
func TestI39AHubOfTheVersionBeforeGetsNoKinds(t *testing.T) {
	t.Parallel()
	var sent []bool // with kinds or without
	hub := interceptor.NewClient(nil, interceptor.Funcs{
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			raw, err := json.Marshal(o)
			require.NoError(t, err)
			with := strings.Contains(string(raw), "ServiceAccount")
			if sent = append(sent, with); with {
				return errors.New("failed to create typed patch object: .status.kinds: field not declared in schema")
			}
			return nil
		},
	})
	f := &facts{}
	f.setKinds([]fleetv1alpha1.ServedKind{{Kind: "ServiceAccount", Versions: []string{"v1"}}})
	b := &bindingReconciler{link: link.Link{Cluster: "east", Version: testVersion, Clock: clock.RealClock{}, Hub: answering{client: hub}}, facts: f}
	mc := testCluster()
	require.NoError(t, b.report(t.Context(), mc, bindingState{ours: true, reason: ReasonBound}, false, 0))
	require.Equal(t, []bool{true, false}, sent)
	require.NoError(t, b.report(t.Context(), mc, bindingState{ours: true, reason: reasonLeaving}, false, 0))
	require.Equal(t, []bool{true, false, false}, sent, "kinds are not sent again")
}
