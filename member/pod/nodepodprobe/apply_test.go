package nodepodprobe

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// If a NodePodProbe was replaced since it was read, the apiserver rejects a patch with the old UID as Invalid. The event for the new one is
// coming, as after the other responses that are not errors.
func TestAWriteThatComesTooLateIsNoError(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "nodepodprobes"}
	invalid := func(at string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, "node-1", field.ErrorList{
			field.Invalid(field.NewPath(at), "x", "field is immutable"),
		})
	}
	for _, tc := range []struct {
		name   string
		answer error
		failed bool
	}{
		{name: "the object is gone", answer: apierrors.NewNotFound(resource, "node-1")},
		{name: "the object has changed", answer: apierrors.NewConflict(resource, "node-1", nil)},
		{name: "the object was replaced", answer: invalid("metadata.uid")},
		{name: "the write is rejected", answer: invalid("spec.podProbes"), failed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{Client: interceptor.NewClient(nil, interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return tc.answer
				},
			})}
			err := r.apply(t.Context(), "node-1", observedWith(node(nil), nodePodProbe(), nil), planned{step: stepWrite, reason: reasonProbes})
			require.Equal(t, tc.failed, err != nil, "%v", err)
		})
	}
}
