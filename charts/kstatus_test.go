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

// notAwaited are CRDs of which nobody waits for a new object, or of which a new object is as good as an observed one.
func notAwaited() map[string]string {
	return map[string]string{
		"hub/clonesets.apps.kruise.io":                    "it may be a template, which no controller observes",
		"hub/memberworks.fleet.kruise.io":                 "only the hub writes rows",
		"hub/workcontents.fleet.kruise.io":                "it has no status",
		"member/appliedworks.fleet.kruise.io":             "only the agent writes its ledger",
		"member/memberships.fleet.kruise.io":              "only the agent writes it",
		"member/nodeimages.apps.kruise.io":                "only the manager writes it",
		"member/nodepodprobes.apps.kruise.io":             "only the manager writes it",
		"member/containerrecreaterequests.apps.kruise.io": "its phase says how far it is, and it has no observedGeneration",
		"member/ephemeraljobs.apps.kruise.io":             "its phase says how far it is, and it has no observedGeneration",
		"member/imagepulljobs.apps.kruise.io":             "its completionTime says that it is done, and it has no observedGeneration",
		"member/imagelistpulljobs.apps.kruise.io":         "its completionTime says that it is done, and it has no observedGeneration",
	}
}

// A new object, which no controller has seen, is not current for those who wait by the rules of kstatus; one that is deleted is terminating.
func TestANewObjectOfAnyKindIsNotCurrent(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"hub", "member"} {
		files, err := filepath.Glob(filepath.Join(chart, "files", "crds", "*.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			crd := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(t, yaml.UnmarshalStrict(raw, crd))
			for i := range crd.Spec.Versions {
				version := &crd.Spec.Versions[i]
				object := map[string]any{
					"apiVersion": crd.Spec.Group + "/" + version.Name, "kind": crd.Spec.Names.Kind,
					"metadata": map[string]any{"name": "new", "generation": int64(1)},
				}
				if pending := version.Schema.OpenAPIV3Schema.Properties["status"].Default; pending != nil { // As the apiserver fills in.
					var is map[string]any
					require.NoError(t, json.Unmarshal(pending.Raw, &is))
					object["status"] = is
				}
				want := status.InProgressStatus
				if notAwaited()[chart+"/"+crd.Name] != "" {
					want = status.CurrentStatus
				}
				is, err := status.Compute(&unstructured.Unstructured{Object: object})
				require.NoError(t, err)
				require.Equal(t, want, is.Status, "%s %s %s", chart, crd.Name, version.Name)
				object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-21T10:00:00Z"
				is, err = status.Compute(&unstructured.Unstructured{Object: object})
				require.NoError(t, err)
				require.Equal(t, status.TerminatingStatus, is.Status, "%s %s %s", chart, crd.Name, version.Name)
			}
		}
	}
}
