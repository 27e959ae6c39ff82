package charts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestRemovingEverythingNamesAllCRDs checks that the page names every CRD: one that it leaves out would stay in the cluster.
func TestRemovingEverythingNamesAllCRDs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("*", "files", "crds", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var want []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(raw, crd))
		want = append(want, crd.Name)
	}
	slices.Sort(want)
	page, err := os.ReadFile(filepath.Join("..", "docs", "start", "install.md"))
	require.NoError(t, err)
	_, command, found := strings.Cut(string(page), "kubectl delete --ignore-not-found crd ")
	require.True(t, found)
	command = strings.ReplaceAll(command, "\\\n", " ")
	command, _, _ = strings.Cut(command, "\n")
	named := strings.Fields(command)
	slices.Sort(named)
	require.Equal(t, slices.Compact(want), named)
}
