package admit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// kinds is a manager with its own types.
type kinds struct {
	manager

	scheme *runtime.Scheme
}

func (k kinds) GetScheme() *runtime.Scheme { return k.scheme }

// converted returns the response to a request to convert objects to v1beta1.
func converted(t *testing.T, version string, objects ...string) apiextensionsv1.ConversionResponse {
	t.Helper()
	m := kinds{newManager(), runtime.NewScheme()}
	require.NoError(t, appsv1alpha1.AddToScheme(m.scheme))
	require.NoError(t, appsv1beta1.AddToScheme(m.scheme))
	require.NoError(t, Register(m, Registration[*appsv1beta1.CloneSet]{
		Object: &appsv1beta1.CloneSet{}, Converter: conversion.NewHubSpokeConverter(&appsv1beta1.CloneSet{},
			conversion.NewSpokeConverter(&appsv1alpha1.CloneSet{}, appsv1alpha1.CloneSetFromHub, appsv1alpha1.CloneSetToHub)),
	}))
	review := apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{UID: "1", DesiredAPIVersion: "apps.kruise.io/" + version}}
	for _, o := range objects {
		review.Request.Objects = append(review.Request.Objects, runtime.RawExtension{
			Raw: []byte(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet",` + o + `}`),
		})
	}
	body, err := json.Marshal(review)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	m.server.WebhookMux().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, ConvertPath, strings.NewReader(string(body))))
	require.Equal(t, http.StatusOK, w.Code)
	var out apiextensionsv1.ConversionReview
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	require.EqualValues(t, "1", out.Response.UID)
	return *out.Response
}

func TestAnObjectThatCanNotBeConvertedNamesTheField(t *testing.T) {
	t.Parallel()
	const good = `"metadata":{"name":"web"},"spec":{"replicas":3}`
	pod := func(fields string) string {
		return `"metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"a"},{"name":"b",` + fields + `}]}}}`
	}
	for _, tc := range []struct{ name, object, want string }{
		{"a quantity", pod(`"resources":{"limits":{"cpu":"1","memory":"lots"}}`), "spec.template.spec.containers[1].resources.limits.memory: "},
		{"an int-or-string", pod(`"livenessProbe":{"httpGet":{"port":true}}`), "spec.template.spec.containers[1].livenessProbe.httpGet.port: "},
		{"a time", `"metadata":{"name":"web","deletionTimestamp":"tomorrow"}`, "metadata.deletionTimestamp: "},
		{"a number", `"spec":{"replicas":"three"}`, "spec.replicas: "},
		{"a list", `"spec":{"template":{"spec":{"containers":{"name":"a"}}}}`, "spec.template.spec.containers"},
		{"the first of two", `"spec":{"minReadySeconds":"a","replicas":"b"}`, "spec.minReadySeconds: "},
		{"an invalid object", `"spec":[]`, "spec: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := converted(t, "v1beta1", good, tc.object)
			require.Equal(t, "Failure", got.Result.Status)
			require.True(t, strings.HasPrefix(got.Result.Message, tc.want), got.Result.Message)
		})
	}

	got := converted(t, "v1beta1", good, good)
	require.Equal(t, "Success", got.Result.Status)
	require.Len(t, got.ConvertedObjects, 2)

	got = converted(t, "v1", good)
	require.Equal(t, "Failure", got.Result.Status)
	require.Contains(t, got.Result.Message, "v1", "faults of the request itself are reported as before")
}
