package resourcedistribution

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// takenOver reads what OpenKruise stores: the manifest, the object in v1beta1 and as it reads in v1alpha1, and the copies.
func takenOver(t *testing.T) (
	manifest, former *appsv1alpha1.ResourceDistribution, stored *appsv1beta1.ResourceDistribution, copies []client.Object,
) {
	t.Helper()
	text, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	parts := bytes.Split(bytes.TrimPrefix(text, []byte("---\n")), []byte("\n---\n"))
	require.Len(t, parts, 6)
	manifest, former, stored = &appsv1alpha1.ResourceDistribution{}, &appsv1alpha1.ResourceDistribution{}, &appsv1beta1.ResourceDistribution{}
	for i, into := range []any{manifest, stored, former} {
		require.NoError(t, yaml.UnmarshalStrict(parts[i], into))
	}
	for _, part := range parts[3:] {
		c := &corev1.ConfigMap{}
		require.NoError(t, yaml.UnmarshalStrict(part, c))
		copies = append(copies, c)
	}
	return manifest, former, stored, copies
}

func TestObjectsOfOpenKruiseConvertAsTheyAre(t *testing.T) {
	t.Parallel()
	manifest, former, stored, _ := takenOver(t)
	var seen appsv1alpha1.ResourceDistribution
	require.NoError(t, appsv1alpha1.ResourceDistributionFromHub(t.Context(), stored, &seen))
	seen.TypeMeta = former.TypeMeta
	require.Empty(t, cmp.Diff(former, &seen))
	var applied appsv1beta1.ResourceDistribution
	require.NoError(t, appsv1alpha1.ResourceDistributionToHub(t.Context(), manifest, &applied))
	require.Empty(t, cmp.Diff(stored.Spec, applied.Spec), "the same manifest again changes nothing")
	warnings, err := (&Webhook{}).ValidateUpdate(t.Context(), stored, stored)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

// Copies and status are as they should be, so only the readiness is written.
func TestPlanOfATakeOver(t *testing.T) {
	t.Parallel()
	_, _, stored, copies := takenOver(t)
	all := append(copies, namespace("default"), namespace("rd-1"), namespace("rd-2", "rd"))
	o := observedOf(t, stored, all...)
	p := plan(o)
	require.Equal(t, "good default rd-1 rd-2", text(p))
	s, events := status(o, p, applied{}, noon)
	require.Empty(t, events)
	s.Conditions = report.ButReadiness(s.Conditions, report.DistributionForm())
	require.Empty(t, cmp.Diff(stored.Status, s))
}
