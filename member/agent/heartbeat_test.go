package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/flotilla-io/flotilla/pkg/link"
)

// configured has only a configuration, which is all that /readyz needs.
type configured struct {
	cluster.Cluster
	config *rest.Config
}

func (c configured) GetConfig() *rest.Config { return c.config }

func TestReadyzErrorsAreReportedWithoutTheCredential(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte("[-]etcd failed for " + r.Header.Get("Authorization")))
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, BearerToken: testToken}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	require.NoError(t, err)
	h := &heartbeat{link: link.Link{Member: configured{config: cfg}}, member: d.RESTClient()}
	err = h.ready(t.Context())
	require.ErrorContains(t, err, "[-]etcd failed for Bearer [removed]")
	require.NotContains(t, err.Error(), testToken)
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
			require.ErrorIs(t, err, errHubWentBack, "revision %s", revision)
		} else {
			require.NoError(t, err, "revision %s", revision)
		}
	}
}
