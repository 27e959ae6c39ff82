// Package webhooktest has what tests of workload webhooks share: an apiserver for dry runs of pod templates, admission requests, and the
// manifests in e2e/examples, whose first lines say the expected answer.
package webhooktest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/testkit"
)

// Apiserver returns a fake apiserver with these objects. It defaults the restart policy of templates, rejects an image named "bad", doesn't
// answer for one named "down", and counts dry runs of PodTemplates and Jobs.
func Apiserver(known ...client.Object) (c client.Client, asked *int) {
	asked = new(int)
	return interceptor.NewClient(fake.NewClientBuilder().WithObjects(known...).Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			*asked++
			var template *corev1.PodTemplateSpec
			at := field.NewPath("template")
			if job, ok := o.(*batchv1.Job); ok {
				template, at = &job.Spec.Template, field.NewPath("spec", "template")
			} else {
				template = &o.(*corev1.PodTemplate).Template
			}
			switch template.Spec.Containers[0].Image {
			case "bad":
				return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", field.ErrorList{
					field.Invalid(at.Child("spec", "containers").Index(0).Child("image"), "bad", "is bad"),
				})
			case "down":
				return errors.New("connection refused")
			}
			if template.Spec.RestartPolicy == "" {
				template.Spec.RestartPolicy = corev1.RestartPolicyAlways
			}
			return nil
		},
	}), asked
}

// Requested returns the context of an admission request in testkit.Namespace. old is nil for a create.
func Requested[T any](tb testing.TB, old *T) context.Context {
	tb.Helper()
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: testkit.Namespace}}
	if old != nil {
		raw, err := json.Marshal(old)
		require.NoError(tb, err)
		req.OldObject = runtime.RawExtension{Raw: raw}
	}
	return admission.NewContextWithRequest(tb.Context(), req)
}
