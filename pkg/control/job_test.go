package control

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestRemoveJob(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "jobs"}
	broken := errors.New("no answer")
	for name, tt := range map[string]struct{ answer, want error }{
		"a deleted job":      {},
		"a job that is gone": {answer: apierrors.NewNotFound(resource, "a")},
		"a conflict":         {answer: apierrors.NewConflict(resource, "a", nil)},
		"nothing is known":   {answer: broken, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent client.DeleteOptions
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
					sent.ApplyOptions(options)
					return tt.answer
				},
			}).Build()
			job := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}}
			require.ErrorIs(t, RemoveJob(t.Context(), c, job), tt.want)
			require.EqualValues(t, "u", *sent.Preconditions.UID)
			require.Equal(t, "7", *sent.Preconditions.ResourceVersion)
			require.Equal(t, metav1.DeletePropagationBackground, *sent.PropagationPolicy)
		})
	}
}
