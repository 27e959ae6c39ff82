//go:build integration

package option

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

var patience = testtimeout.Scale(time.Minute)

// TestIntegrationAManagerWaitsForItsCRDs starts in a cluster with the first of three CRDs.
func TestIntegrationAManagerWaitsForItsCRDs(t *testing.T) {
	t.Parallel()
	cluster := lab.StartT(t, lab.Config{ControlPlaneOnly: true})
	cfg, err := cluster.REST()
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	require.NoError(t, err)
	install := func(plural, kind string) {
		require.NoError(t, c.Create(t.Context(), crd(plural, kind)))
	}
	install("anchors", "Anchor")

	m := NewManager("flotilla-test")
	port, err := cluster.Port(t.Context(), "health")
	require.NoError(t, err)
	m.Kubeconfig, m.HealthAddr = cluster.Kubeconfig, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		ended <- m.AwaitCRDs(ctx, "anchors.ships.example.com", "buoys.ships.example.com", "cables.ships.example.com")
	}()
	requireStatus := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			code, text, err := probe(t, "http://"+m.HealthAddr+"/readyz")
			return err == nil && code == http.StatusServiceUnavailable && text == want+"\n"
		}, patience, 20*time.Millisecond, want)
		code, _, err := probe(t, "http://"+m.HealthAddr+"/healthz")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
	}
	requireStatus("waiting for CRD buoys.ships.example.com")
	install("buoys", "Buoy")
	requireStatus("waiting for CRD cables.ships.example.com")
	select {
	case err := <-ended:
		require.Fail(t, "it did not wait for the last CRD", "%v", err)
	default:
	}
	install("cables", "Cable")
	require.NoError(t, <-ended)
	_, _, err = probe(t, "http://"+m.HealthAddr+"/healthz")
	require.Error(t, err, "the manager listens there next")
	require.NoError(t, m.AwaitCRDs(t.Context(), "anchors.ships.example.com", "cables.ships.example.com"))
}

func crd(plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".ships.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "ships.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}
