//go:build integration

package apis_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// TestAnApiserverTakesEveryCRD applies each CRD: only an apiserver detects rules that don't compile, rules that cost too much and invalid
// defaults.
func TestAnApiserverTakesEveryCRD(t *testing.T) {
	t.Parallel()
	config, err := lab.StartT(t, lab.Config{ControlPlaneOnly: true}).REST()
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	files, err := filepath.Glob("../charts/*/files/crds/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	unserved, err := filepath.Glob("testdata/crds/*.yaml")
	require.NoError(t, err)
	files = append(files, unserved...)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for _, file := range files {
		crd := &unstructured.Unstructured{Object: readFile(t, file)}
		_, err = client.Resource(crds).Apply(t.Context(), crd.GetName(), crd,
			metav1.ApplyOptions{FieldManager: "test", DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
