package admit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// manager implements only what Register needs.
type manager struct {
	ctrl.Manager
	server   webhook.Server
	registry conversion.Registry
}

func (m manager) GetScheme() *runtime.Scheme                { return scheme.Scheme }
func (m manager) GetWebhookServer() webhook.Server          { return m.server }
func (m manager) GetConverterRegistry() conversion.Registry { return m.registry }
func (m manager) post(path string, r *http.Request) []byte {
	w := httptest.NewRecorder()
	r.URL.Path = path
	m.server.WebhookMux().ServeHTTP(w, r)
	return w.Body.Bytes()
}

func newManager() manager {
	return manager{server: webhook.NewServer(webhook.Options{}), registry: conversion.NewRegistry()}
}

// kind defaults a ConfigMap's data and rejects a bad one; it panics on a nil map.
type kind struct{}

func (kind) Default(_ context.Context, c *corev1.ConfigMap) error {
	if c.Data == nil && c.Name != "careless" {
		c.Data = map[string]string{}
	}
	c.Data["defaulted"] = "true"
	return nil
}

// nothing sets no defaults.
type nothing struct{}

func (nothing) Default(context.Context, *corev1.Pod) error { return nil }

func (kind) ValidateCreate(_ context.Context, c *corev1.ConfigMap) (admission.Warnings, error) {
	switch {
	case c.Data["panic"] != "":
		return nil, errors.New(strings.Split(c.Data["panic"], ",")[1])
	case c.Data["bad"] != "":
		return nil, errors.New("data[bad]: must be empty")
	}
	return admission.Warnings{"consider a Secret"}, nil
}

func (k kind) ValidateUpdate(ctx context.Context, _, c *corev1.ConfigMap) (admission.Warnings, error) {
	return k.ValidateCreate(ctx, c)
}

func (k kind) ValidateDelete(ctx context.Context, c *corev1.ConfigMap) (admission.Warnings, error) {
	return k.ValidateCreate(ctx, c)
}

type converter struct{}

func (converter) ConvertObject(context.Context, runtime.Object, runtime.Object) error { return nil }

func review(t *testing.T, name string, data map[string]string) *http.Request {
	t.Helper()
	raw, err := json.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data,
	})
	require.NoError(t, err)
	return reviewOf(t, "ConfigMap", raw)
}

func reviewOf(t *testing.T, kind string, raw []byte) *http.Request {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Name: "settings", Namespace: "ns",
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: kind}, Object: runtime.RawExtension{Raw: raw},
		},
	})
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestRegisteredWebhooks(t *testing.T) {
	t.Parallel()
	m := newManager()
	require.NoError(t, Register(m, Registration[*corev1.ConfigMap]{
		Object: &corev1.ConfigMap{}, Defaulter: kind{}, Validator: kind{},
		Converter: func(*runtime.Scheme) (conversion.Converter, error) { return converter{}, nil },
	}))
	require.True(t, isRegistered(m.server, ConvertPath))

	for _, tc := range []struct {
		name    string
		path    string
		object  string
		data    map[string]string
		allowed bool
		code    int32
		message string
		patch   string
		warning string
	}{
		{
			name: "a default becomes a patch", path: "/mutate-configmap", allowed: true, code: 200,
			patch: `[{"op":"add","path":"/data","value":{"defaulted":"true"}}]`,
		},
		{
			name: "a panic of a defaulter is an error of that request", path: "/mutate-configmap",
			object: "careless", code: 500, message: "panic: assignment to entry in nil map",
		},
		{
			name: "a warning is returned with the admission", path: "/validate-configmap", allowed: true, code: 200,
			warning: "consider a Secret",
		},
		{
			name: "an error of a validator rejects the request", path: "/validate-configmap",
			data: map[string]string{"bad": "1"}, code: 403, message: "data[bad]: must be empty",
		},
		{
			name: "a panic of a validator is an error of that request", path: "/validate-configmap",
			data: map[string]string{"panic": "1"}, code: 500, message: "panic: runtime error: index out of range",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(m.post(tc.path, review(t, tc.object, tc.data)), &got))
			require.Equal(t, tc.allowed, got.Response.Allowed)
			require.Equal(t, tc.code, got.Response.Result.Code)
			require.Contains(t, got.Response.Result.Message, tc.message)
			require.Equal(t, tc.patch, string(got.Response.Patch))
			if tc.warning != "" {
				require.Equal(t, []string{tc.warning}, got.Response.Warnings)
			}
		})
	}
}

// TestAnObjectIsAlwaysStoredAsItsTypeWritesIt: without a patch the API server would store what it was given, not what it converted for us.
func TestAnObjectIsAlwaysStoredAsItsTypeWritesIt(t *testing.T) {
	t.Parallel()
	m := newManager()
	require.NoError(t, Register(m, Registration[*corev1.Pod]{Object: &corev1.Pod{}, Defaulter: nothing{}}))
	kept := `{"op":"test","path":"/kind","value":"Pod"}`
	for given, patch := range map[string]string{
		`{"containers":[{"name":"main"}]}`:                             `{"op":"add","path":"/spec/containers/0/resources","value":{}}`,
		`{"containers":[{"name":"main","resources":{}}]}`:              kept,
		`{"containers":[{"name":"main","resources":{},"later":true}]}`: kept,
	} {
		raw := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":` + given + `,"status":{}}`)
		var got admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(m.post("/mutate-pod", reviewOf(t, "Pod", raw)), &got))
		require.True(t, got.Response.Allowed)
		require.Equal(t, "["+patch+"]", string(got.Response.Patch), given)
	}
}

// TestAWrongTypeIsLeftToTheSchema: an error from decoding an int-or-string or a quantity names no field. The schema does, and is checked after
// the defaults.
func TestAWrongTypeIsLeftToTheSchema(t *testing.T) {
	t.Parallel()
	wrong := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"overhead":{"cpu":"much"}}}`)},
	}}
	for _, validated := range []bool{true, false} {
		h := typed{admission.WithDefaulter(scheme.Scheme, nothing{}).Handler, &corev1.Pod{}, admission.NewDecoder(scheme.Scheme), validated}
		got := h.Handle(t.Context(), wrong)
		require.Equal(t, validated, got.Allowed, "without validation it would be stored if the schema allows it")
		require.Empty(t, got.Patches)
	}
}

func TestRegisterRejects(t *testing.T) {
	t.Parallel()
	m := newManager()
	nothing := Registration[*corev1.ConfigMap]{Object: &corev1.ConfigMap{}}
	require.ErrorContains(t, Register(m, nothing), "of ConfigMap: it has none")
	require.False(t, isRegistered(m.server, ConvertPath))

	validated := nothing
	validated.Validator = kind{}
	require.NoError(t, Register(m, validated))
	require.ErrorContains(t, Register(m, validated), "path /validate-configmap is already taken")

	broken := nothing
	broken.Converter = func(*runtime.Scheme) (conversion.Converter, error) { return nil, errors.New("no spoke") }
	require.ErrorContains(t, Register(m, broken), "make converter: no spoke")

	foreign := Registration[*metav1.PartialObjectMetadata]{Object: &metav1.PartialObjectMetadata{}}
	require.ErrorContains(t, Register(m, foreign), "register webhooks")
}

func TestOneHandlerConvertsAllKinds(t *testing.T) {
	t.Parallel()
	m := newManager()
	convert := func(*runtime.Scheme) (conversion.Converter, error) { return converter{}, nil }
	require.NoError(t, Register(m, Registration[*corev1.ConfigMap]{Object: &corev1.ConfigMap{}, Converter: convert}))
	require.NoError(t, Register(m, Registration[*corev1.Secret]{Object: &corev1.Secret{}, Converter: convert}))
	for _, k := range []string{"ConfigMap", "Secret"} {
		_, ok := m.registry.GetConverter(schema.GroupKind{Kind: k})
		require.True(t, ok, k)
	}
}

// TestARequestIsAnsweredWhileTheManagerStops: controller-runtime cancels the context of running requests as soon as a manager is stopped, before
// it waits for them.
func TestARequestIsAnsweredWhileTheManagerStops(t *testing.T) {
	t.Parallel()
	m := newManager()
	require.NoError(t, handle(m.server, "/slow", &admission.Webhook{Handler: admission.HandlerFunc(
		func(ctx context.Context, _ admission.Request) admission.Response {
			deadline, bounded := ctx.Deadline()
			require.True(t, bounded)
			require.WithinRange(t, deadline, time.Now(), time.Now().Add(30*time.Second)) //nolint:forbidigo // Contexts go by no other clock.
			return admission.ValidationResponse(ctx.Err() == nil, "")
		})}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(m.post("/slow", review(t, "", nil).WithContext(ctx)), &got))
	require.True(t, got.Response.Allowed)
}

func TestDecisionsAreLoggedWithoutObjects(t *testing.T) {
	t.Parallel()
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
	ctx := logr.NewContext(t.Context(), log)
	decide := func(r admission.Response) {
		loggingHandler{admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return r })}.Handle(ctx,
			admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind{Kind: "ConfigMap"}, Namespace: "ns", Name: "settings",
				Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte(`{"data":{"password":"x"}}`)},
			}})
	}
	decide(admission.Allowed(""))
	decide(admission.Denied("data[bad]: must be empty"))
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `"msg"="Admitted" "kind"="ConfigMap" "step"="UPDATE" "count"=0`)
	require.Contains(t, lines[1], `"reason"="data[bad]: must be empty"`)
	require.NotContains(t, fmt.Sprint(lines), "password")
}

func TestPathsCarryGroupAndKind(t *testing.T) {
	t.Parallel()
	gvk := schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"}
	require.Equal(t, "/mutate-apps-kruise-io-cloneset", MutatePath(gvk))
	require.Equal(t, "/validate-apps-kruise-io-cloneset", ValidatePath(gvk))
}

func TestNewWarnings(t *testing.T) {
	t.Parallel()
	now := admission.Warnings{"a", "b"}
	require.Equal(t, admission.Warnings{"b"}, NewWarnings(now, admission.Warnings{"a", "c"}))
	require.Equal(t, admission.Warnings{"a", "b"}, now, "the given object is not modified")
	require.Empty(t, NewWarnings(now, now))
}
