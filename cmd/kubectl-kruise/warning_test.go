package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// warning returns an apiserver that lists the fleet's clusters and adds a warning.
func warning(t *testing.T) string {
	t.Helper()
	version := metav1.GroupVersionForDiscovery{GroupVersion: "fleet.kruise.io/v1alpha1", Version: "v1alpha1"}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: "fleet.kruise.io",
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	served := map[string]any{
		"/api": metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}},
		"/apis": metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group},
		},
		"/apis/fleet.kruise.io": group,
		"/apis/fleet.kruise.io/v1alpha1": metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version.GroupVersion,
			APIResources: []metav1.APIResource{{Name: "memberclusters", Kind: "MemberCluster", Verbs: metav1.Verbs{"list"}}},
		},
		"/apis/fleet.kruise.io/v1alpha1/memberclusters": fleetv1alpha1.MemberClusterList{
			TypeMeta: metav1.TypeMeta{APIVersion: version.GroupVersion, Kind: "MemberClusterList"},
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := served[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "this will end"`)
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestWarningsOfTheServerAreShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, flag, err string
	}{
		{"warnings are printed once", "--warnings-as-errors=false", ""},
		{"warnings fail the command with the flag", "--warnings-as-errors", "--warnings-as-errors: warnings from the server: 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := root(fromFlags)
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SetArgs([]string{"cluster", "list", "--server", warning(t), "--cache-dir", t.TempDir(), c.flag})
			err := cmd.ExecuteContext(t.Context())
			if c.err != "" {
				require.EqualError(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, "Warning: this will end\nNo member clusters found.\n", out.String())
		})
	}
}
