package option

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// probe sends a request to a health server.
func probe(t *testing.T, url string) (code int, text string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func TestAManagerThatWaitsForCRDsIsAliveAndNotReady(t *testing.T) {
	t.Parallel()
	w := &waiting{}
	w.missing.Store(new("clonesets.apps.kruise.io"))
	server := httptest.NewServer(w)
	defer server.Close()
	code, _, err := probe(t, server.URL+"/healthz")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	code, text, err := probe(t, server.URL+"/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "waiting for CRD clonesets.apps.kruise.io\n", text)

	m := NewManager("flotilla-test")
	m.HealthAddr = strings.TrimPrefix(server.URL, "http://")
	_, err = m.serveHealth(t.Context(), w)
	require.ErrorContains(t, err, "--health-probe-addr="+m.HealthAddr)
	m.HealthAddr = "127.0.0.1:0"
	end, err := m.serveHealth(t.Context(), w)
	require.NoError(t, err)
	require.NoError(t, end())
	m.HealthAddr = "0"
	end, err = m.serveHealth(t.Context(), w)
	require.NoError(t, err)
	require.NoError(t, end())
}
