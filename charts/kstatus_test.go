package charts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// notAwaited are CRDs whose new objects nobody waits for, or for which a new object is as good as an observed one.
func notAwaited() map[string]string {
	return map[string]string{
		"hub/clonesets.apps.kruise.io":         "it may be a template, which no controller observes",
		"hub/memberworks.fleet.kruise.io":      "only the hub writes rows",
		"hub/rolloutapprovals.fleet.kruise.io": "it has no status",
		"hub/workcontents.fleet.kruise.io":     "it has no status",
		"member/appliedworks.fleet.kruise.io":  "only the agent writes its ledger",
		"member/memberships.fleet.kruise.io":   "only the agent writes it",
		"member/nodeimages.apps.kruise.io":     "only the manager writes it",
		"member/nodepodprobes.apps.kruise.io":  "only the manager writes it",
	}
}

// version is a version of a CRD of a chart.
type version struct {
	chart, crd, group, kind, version string
	// pending is the status that the apiserver gives a new object; nil if it has none.
	pending map[string]any
	// conditions reports whether the status has conditions.
	conditions bool
}

// object returns an object with this generation and status.
func (v version) object(generation int64, status map[string]any) map[string]any {
	out := map[string]any{
		"apiVersion": v.group + "/" + v.version, "kind": v.kind, "metadata": map[string]any{"name": "new", "generation": generation},
	}
	if status != nil {
		out["status"] = status
	}
	return out
}

// all returns the versions of all CRDs.
func all(tb testing.TB) []version {
	tb.Helper()
	var out []version
	for _, chart := range []string{"hub", "member"} {
		files, err := filepath.Glob(filepath.Join(chart, "files", "crds", "*.yaml"))
		require.NoError(tb, err)
		require.NotEmpty(tb, files)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(tb, err)
			crd := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(tb, yaml.UnmarshalStrict(raw, crd))
			for i := range crd.Spec.Versions {
				v := version{chart: chart, crd: crd.Name, group: crd.Spec.Group, kind: crd.Spec.Names.Kind, version: crd.Spec.Versions[i].Name}
				schema := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["status"]
				if schema.Default != nil {
					require.NoError(tb, json.Unmarshal(schema.Default.Raw, &v.pending))
				}
				_, v.conditions = schema.Properties["conditions"]
				out = append(out, v)
			}
		}
	}
	return out
}

// awaited returns the versions of CRDs whose objects people wait for.
func awaited(tb testing.TB) []version {
	tb.Helper()
	var out []version
	for _, v := range all(tb) {
		if notAwaited()[v.chart+"/"+v.crd] == "" {
			out = append(out, v)
		}
	}
	return out
}

// By the rules of kstatus, a new object that no controller has seen is not current, and an object that is being deleted is terminating.
// The tests of the controllers, TestKstatusTells, cover all other states.
func TestANewObjectOfAnyKindIsNotCurrent(t *testing.T) {
	t.Parallel()
	for _, v := range all(t) {
		object, want := v.object(1, v.pending), status.InProgressStatus
		if notAwaited()[v.chart+"/"+v.crd] != "" {
			want = status.CurrentStatus
		} else {
			require.True(t, v.conditions, "%s %s %s has conditions", v.chart, v.crd, v.version)
		}
		result, err := status.Compute(&unstructured.Unstructured{Object: object})
		require.NoError(t, err)
		require.Equal(t, want, result.Status, "%s %s %s", v.chart, v.crd, v.version)
		object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-21T10:00:00Z"
		result, err = status.Compute(&unstructured.Unstructured{Object: object})
		require.NoError(t, err)
		require.Equal(t, status.TerminatingStatus, result.Status, "%s %s %s", v.chart, v.crd, v.version)
	}
}
