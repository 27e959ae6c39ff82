package admit

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOnlyObjectsThatAreAdmittedAreToldOf: Admitted is only called for objects that are about to be stored.
func TestOnlyObjectsThatAreAdmittedAreToldOf(t *testing.T) {
	t.Parallel()
	raw := func(name, bad string) runtime.RawExtension {
		o := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		if bad != "" {
			o.Data = map[string]string{"bad": bad}
		}
		text, err := json.Marshal(o)
		require.NoError(t, err)
		return runtime.RawExtension{Raw: text}
	}
	for _, tc := range []struct {
		name string
		req  admissionv1.AdmissionRequest
		want []string
	}{
		{name: "a new object", req: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw("a", "")}, want: []string{"-> a"}},
		{name: "a change", req: admissionv1.AdmissionRequest{Operation: admissionv1.Update, OldObject: raw("b", ""), Object: raw("a", "")}, want: []string{"b -> a"}},
		{name: "a rejected object", req: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw("a", "yes")}},
		{name: "a dry run", req: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw("a", ""), DryRun: new(true)}},
		{name: "a deletion", req: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: raw("a", "")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var told []string
			m := newManager()
			require.NoError(t, Register(m, Registration[*corev1.ConfigMap]{
				Object: &corev1.ConfigMap{}, Validator: kind{}, Admitted: func(_ context.Context, old, object client.Object) []string {
					line := "-> " + object.GetName()
					if old != nil {
						line = old.GetName() + " " + line
					}
					told = append(told, line)
					return []string{"told"}
				},
			}))
			tc.req.UID, tc.req.Kind = "1", metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
			body, err := json.Marshal(admissionv1.AdmissionReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &tc.req,
			})
			require.NoError(t, err)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			var got admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(m.post("/validate-configmap", r), &got))
			require.Equal(t, tc.want, told)
			if tc.want != nil {
				require.True(t, got.Response.Allowed)
				require.Equal(t, []string{"consider a Secret", "told"}, got.Response.Warnings)
			}
		})
	}
}
