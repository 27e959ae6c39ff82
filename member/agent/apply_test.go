//go:build !integration

package agent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The apiserver answers Invalid to an apply with the UID of an object that was replaced since it was read. It must count as a conflict, which
// is planned again, and not as a manifest that the member refuses.
func TestApplyToAnObjectThatWasReplacedIsAConflict(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		field    string
		conflict bool
	}{{"metadata.uid", true}, {"spec.replicas", false}} {
		s := newScene(t)
		invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "UnitedDeployment"}, "web", field.ErrorList{
			field.Invalid(field.NewPath(tt.field), "x", "field is immutable"),
		})
		w := writer{client: interceptor.NewClient(nil, interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return invalid
			},
		})}
		_, err := w.apply(t.Context(), s.want, s.live, applyOptions{takeFields: true})
		require.Equal(t, tt.conflict, apierrors.IsConflict(err), tt.field)
		require.Equal(t, !tt.conflict, permanentProblem(err) != nil, tt.field)
	}
}
