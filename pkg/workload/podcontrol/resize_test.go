package podcontrol

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

func TestCanResizeAsksTheApiserver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		resources []string
		can       bool
		err       string
	}{
		{name: "an API server of Kubernetes 1.33 or newer has the subresource", resources: []string{"pods", "pods/resize"}, can: true},
		{name: "an older API server lacks it", resources: []string{"pods", "pods/status"}},
		{name: "an unreachable API server is an error", err: "discover whether pods can be resized"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tc.err != "" || r.URL.Path != "/api/v1" {
					http.Error(w, "down", http.StatusInternalServerError)
					return
				}
				var list metav1.APIResourceList
				for _, name := range tc.resources {
					list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(list)
			}))
			defer s.Close()
			d, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: s.URL})
			require.NoError(t, err)
			can, err := CanResize(d)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.can, can)
		})
	}
}
