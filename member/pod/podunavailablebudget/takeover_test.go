package podunavailablebudget

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/flotilla-io/flotilla/apis/policy/v1alpha1"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// readDocuments reads what OpenKruise stores: the manifest, the object in v1beta1, and how it reads in v1alpha1.
func readDocuments(t *testing.T, name string, into ...any) {
	t.Helper()
	text, err := os.ReadFile("testdata/openkruise-" + name + ".yaml")
	require.NoError(t, err)
	parts := bytes.Split(bytes.TrimPrefix(text, []byte("---\n")), []byte("\n---\n"))
	require.Len(t, parts, len(into))
	for i := range into {
		require.NoError(t, yaml.UnmarshalStrict(parts[i], into[i]))
	}
}

func TestObjectsOfOpenKruiseConvertAsTheyAre(t *testing.T) {
	t.Parallel()
	manifest, former, stored := &policyv1alpha1.PodUnavailableBudget{}, &policyv1alpha1.PodUnavailableBudget{}, &policyv1beta1.PodUnavailableBudget{}
	readDocuments(t, "v1alpha1", manifest, stored, former)
	var seen policyv1alpha1.PodUnavailableBudget
	require.NoError(t, policyv1alpha1.PodUnavailableBudgetFromHub(t.Context(), stored, &seen))
	seen.TypeMeta = former.TypeMeta
	require.Empty(t, cmp.Diff(former, &seen))
	var applied policyv1beta1.PodUnavailableBudget
	require.NoError(t, policyv1alpha1.PodUnavailableBudgetToHub(t.Context(), manifest, &applied))
	require.Empty(t, cmp.Diff(stored.Spec, applied.Spec), "the same manifest again changes nothing")
	warnings, err := newWebhook(apiserver(t)).ValidateUpdate(t.Context(), stored, stored)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

// OpenKruise's counts are valid from the first moment, and counting again writes nothing.
func TestPlanOfATakeOver(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v1alpha1", "v1beta1"} {
		stored := &policyv1beta1.PodUnavailableBudget{}
		if name == "v1alpha1" {
			readDocuments(t, name, &policyv1alpha1.PodUnavailableBudget{}, stored, &policyv1alpha1.PodUnavailableBudget{})
		} else {
			readDocuments(t, name, &policyv1beta1.PodUnavailableBudget{}, stored)
		}
		o := observed{budget: stored, counts: true, expected: stored.Status.TotalReplicas}
		for i := range stored.Status.TotalReplicas {
			p := pod(fmt.Sprintf("pod-%d", i))
			annotated("pub.kruise.io/related-pub", stored.Name)(p)
			annotated("kruise.io/related-pub", stored.Name)(p)
			o.pods = append(o.pods, p)
		}
		p := plan(o, noon)
		require.Empty(t, p.unnamed, "no pod is written")
		s, events := status(o, p, noon)
		require.Empty(t, events)
		s.Conditions = nil
		require.Empty(t, cmp.Diff(stored.Status, s), "only the readiness in the status differs")
		require.Nil(t, judge(stored.DeepCopy(), podwebhook.Request{Operation: podwebhook.Delete, Old: o.pods[0]}, noon).refusal)
	}
}
