package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
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
