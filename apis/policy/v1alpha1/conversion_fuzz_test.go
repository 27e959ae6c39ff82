package v1alpha1

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
)

// Converting an object to v1beta1 and back returns the same object, whatever its annotations are.

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	t.Run("A PodUnavailableBudget of v1beta1 comes back from v1alpha1 as it was.", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, fromHubAndBack)
	})
	t.Run("A PodUnavailableBudget of v1alpha1 comes back from v1beta1 as it was.", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, toHubAndBack)
	})
}

func FuzzPodUnavailableBudgetFromHubAndBack(f *testing.F) { f.Fuzz(rapid.MakeFuzz(fromHubAndBack)) }
func FuzzPodUnavailableBudgetToHubAndBack(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(toHubAndBack)) }

func fromHubAndBack(t *rapid.T) {
	in := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations(t, false)}, Spec: policyv1beta1.PodUnavailableBudgetSpec{
		Selector:       rapid.SampledFrom([]*metav1.LabelSelector{nil, {MatchLabels: map[string]string{"a": "b"}}}).Draw(t, "selector"),
		TargetRef:      rapid.SampledFrom([]*policyv1beta1.TargetReference{nil, {Kind: "Deployment"}}).Draw(t, "target"),
		MaxUnavailable: new(intstr.FromInt32(rapid.Int32().Draw(t, "max"))), IgnoredPodSelector: &metav1.LabelSelector{}, ProtectNotReady: rapid.Bool().Draw(t, "not ready"),
		ProtectOperations: rapid.SliceOfN(rapid.SampledFrom([]policyv1beta1.Operation{policyv1beta1.Delete, policyv1beta1.Update, policyv1beta1.Evict, policyv1beta1.Resize}), 0, 4).Draw(t, "operations"),
	}, Status: policyv1beta1.PodUnavailableBudgetStatus{TotalReplicas: 3}}
	if len(in.Spec.ProtectOperations) == 0 {
		in.Spec.ProtectOperations = nil
	}
	if n := rapid.Int32Range(0, 5).Draw(t, "total"); n > 0 {
		in.Spec.ProtectTotalReplicas = &n
	}
	before := in.DeepCopy()
	var there PodUnavailableBudget
	var back policyv1beta1.PodUnavailableBudget
	require.NoError(t, PodUnavailableBudgetFromHub(t.Context(), in, &there))
	require.NoError(t, PodUnavailableBudgetToHub(t.Context(), &there, &back))
	require.Empty(t, cmp.Diff(before, in), "it was changed")
	require.Empty(t, cmp.Diff(in, &back))
}

func toHubAndBack(t *rapid.T) {
	in := &PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations(t, true)}, Spec: PodUnavailableBudgetSpec{
		MinAvailable: new(intstr.FromString(rapid.String().Draw(t, "min"))), IgnoredPodSelector: &metav1.LabelSelector{}, ProtectNotReady: rapid.Bool().Draw(t, "not ready"),
	}}
	before := in.DeepCopy()
	var there policyv1beta1.PodUnavailableBudget
	var back PodUnavailableBudget
	require.NoError(t, PodUnavailableBudgetToHub(t.Context(), in, &there))
	require.NoError(t, PodUnavailableBudgetFromHub(t.Context(), &there, &back))
	require.Empty(t, cmp.Diff(before, in), "it was changed")
	require.Empty(t, cmp.Diff(in, &back))
}

// annotations draws random annotations. If the object is in v1alpha1, they include the annotations of the two fields, in any spelling.
func annotations(t *rapid.T, alpha bool) map[string]string {
	out := rapid.SampledFrom([]map[string]string{nil, {"a": "b"}}).Draw(t, "others")
	if !alpha {
		return out
	}
	out = maps.Clone(out)
	draw := func(key string, texts ...string) {
		if text := rapid.OneOf(rapid.SampledFrom(texts), rapid.String()).Draw(t, key); text != "-" {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = text
		}
	}
	draw(keys.ProtectOperations, "-", "", "DELETE", "DELETE,EVICT", "EVICT, DELETE", "DELETE,REMOVE", ",")
	draw(keys.ProtectTotalReplicas, "-", "", "1", "30", "+3", " 4", "0", "-1", "many")
	return out
}

func TestFieldsAreAnnotations(t *testing.T) {
	t.Parallel()
	beta := &policyv1beta1.PodUnavailableBudget{Spec: policyv1beta1.PodUnavailableBudgetSpec{
		ProtectOperations: []policyv1beta1.Operation{policyv1beta1.Delete, policyv1beta1.Evict}, ProtectTotalReplicas: new(int32(30)),
	}}
	var alpha PodUnavailableBudget
	require.NoError(t, PodUnavailableBudgetFromHub(t.Context(), beta, &alpha))
	require.Equal(t, map[string]string{keys.ProtectOperations: "DELETE,EVICT", keys.ProtectTotalReplicas: "30"}, alpha.Annotations)

	alpha.Annotations = map[string]string{keys.ProtectOperations: "EVICT, DELETE", keys.ProtectTotalReplicas: "many"}
	require.NoError(t, PodUnavailableBudgetToHub(t.Context(), &alpha, beta))
	require.Equal(t, []policyv1beta1.Operation{policyv1beta1.Evict, policyv1beta1.Delete}, beta.Spec.ProtectOperations)
	require.Nil(t, beta.Spec.ProtectTotalReplicas, "the webhook reads the annotation")
	require.Equal(t, alpha.Annotations, beta.Annotations)

	beta.Spec.ProtectOperations = []policyv1beta1.Operation{policyv1beta1.Update}
	require.NoError(t, PodUnavailableBudgetFromHub(t.Context(), beta, &alpha))
	require.Equal(t, "UPDATE", alpha.Annotations[keys.ProtectOperations], "an edited field takes precedence")
}
