//go:build integration

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// A CRD without its conversion webhook disturbs garbage collection, so the test has its own cluster. The commands from the check repair it.
func TestIntegrationMigrateCheckHealsAConversion(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: apiextensionsv1.AddToScheme, Own: &lab.Config{ControlPlaneOnly: true}})
	d := &desk{Client: s, namespace: "default", kubeconfig: s.Cluster.Kubeconfig, cache: t.TempDir()}

	leftover := crd("PodMarker", "podmarkers", converted)
	leftover.Spec.Scope = apiextensionsv1.NamespaceScoped
	leftover.Spec.Names.ListKind, leftover.Spec.Names.Singular = "PodMarkerList", "podmarker"
	leftover.Spec.Conversion.Webhook.ConversionReviewVersions = []string{"v1"}
	for i := range leftover.Spec.Versions {
		leftover.Spec.Versions[i].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	}
	leftover.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	require.NoError(t, s.Create(t.Context(), leftover))
	require.Eventually(t, func() bool {
		return s.Create(t.Context(), sample("PodMarker", "v1beta1", "a")) == nil
	}, testtimeout.Scale(time.Minute), testenv.Poll)
	older := func() error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("apps.kruise.io/v1alpha1")
		list.SetKind("PodMarkerList")
		return s.List(t.Context(), list)
	}
	require.ErrorContains(t, older(), "conversion webhook")

	out, err := d.kruise(t, "migrate check -o json")
	require.ErrorContains(t, err, "blocking findings: ")
	var found checkOutput
	require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&found))
	i := slices.IndexFunc(found.Findings, func(f finding) bool { return f.Reason == "ConversionUnreachable" })
	require.GreaterOrEqual(t, i, 0)
	require.Contains(t, found.Findings[i].Message, "All objects are stored in v1beta1")

	patch, ok := strings.CutPrefix(found.Findings[i].Do[0], "kubectl patch crd podmarkers.apps.kruise.io --type merge -p '")
	require.True(t, ok)
	at := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: leftover.Name}}
	require.NoError(t, s.Patch(t.Context(), at, client.RawPatch(types.MergePatchType, []byte(strings.TrimSuffix(patch, "'")))))
	require.Eventually(t, func() bool { return older() == nil }, testtimeout.Scale(time.Minute), testenv.Poll)
	d.ok(t, "migrate check", "KindNotServed")
}
