package hub

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var chart = filepath.Join("..", "charts", "hub")

func TestTheChartHasTheCRDOfEachKindAndTheRightToItsCABundle(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		resource, group, _ := strings.Cut(kind.CRD, ".")
		text, err := os.ReadFile(filepath.Join(chart, "files", "crds", group+"_"+resource+".yaml"))
		require.NoError(t, err)
		var crd metav1.PartialObjectMetadata
		require.NoError(t, yaml.Unmarshal(text, &crd))
		require.Equal(t, kind.CRD, crd.Name)
	}
	text, err := os.ReadFile(filepath.Join(chart, "files", "role.yaml"))
	require.NoError(t, err)
	var named []string
	for doc := range strings.SplitSeq(string(text), "---\n") {
		var role rbacv1.ClusterRole
		require.NoError(t, yaml.Unmarshal([]byte(doc), &role))
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "customresourcedefinitions") {
				named = append(named, rule.ResourceNames...)
			}
		}
	}
	require.ElementsMatch(t, Kinds().ConvertedCRDs(), named)
}

// TestTheChartHasTheWebhooksOfEachKind compares names. The hub's webhooks differ too much for a template for all kinds.
func TestTheChartHasTheWebhooksOfEachKind(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(chart, "templates", "webhooks.yaml"))
	require.NoError(t, err)
	for _, kind := range Kinds() {
		_, group, _ := strings.Cut(kind.CRD, ".")
		path := strings.ReplaceAll(group, ".", "-") + "-" + kind.Name
		require.Contains(t, string(text), `"/validate-`+path+`"`)
	}
}
