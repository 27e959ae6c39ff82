// Package webhooktest holds what tests of workloads' webhooks share: an apiserver that is asked about pod templates, the request
// that a webhook is called with, and the manifests of e2e/examples, whose first lines say what comes back.
package webhooktest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
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

// Apiserver knows the objects given, completes a template by its restart policy, refuses one with an image named "bad", is away
// for one named "down", and counts how often it was asked about templates.
func Apiserver(known ...client.Object) (c client.Client, asked *int) {
	asked = new(int)
	return interceptor.NewClient(fake.NewClientBuilder().WithObjects(known...).Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			*asked++
			template := &o.(*corev1.PodTemplate).Template
			switch template.Spec.Containers[0].Image {
			case "bad":
				return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", field.ErrorList{
					field.Invalid(field.NewPath("template", "spec", "containers").Index(0).Child("image"), "bad", "is bad"),
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

// Requested is the context of an admission request in testkit.Namespace; nil as old is that of a creation.
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
