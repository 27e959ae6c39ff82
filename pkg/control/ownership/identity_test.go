package ownership

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPassed(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	invalid := func(name string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", field.ErrorList{
			field.Invalid(field.NewPath("metadata", name), "a", "field is immutable"),
		})
	}
	for _, tc := range []struct {
		name            string
		err             error
		passed, another bool
	}{
		{"a missing object", apierrors.NewNotFound(pods, "web"), true, false},
		{"a conflict", apierrors.NewConflict(pods, "web", errors.New("changed")), true, false},
		{"a replaced object", invalid("uid"), true, true},
		{"wrapped", fmt.Errorf("patch web: %w", invalid("uid")), true, true},
		{"another field", invalid("name"), false, false},
		{"invalid without details", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid}}, false, false},
		{"refused", apierrors.NewForbidden(pods, "web", errors.New("quota")), false, false},
		{"it exists", apierrors.NewAlreadyExists(pods, "web"), false, false},
		{"no answer", errors.New("connection refused"), false, false},
		{"none", nil, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.passed, Passed(tc.err))
			require.Equal(t, tc.another, IsOtherUID(tc.err))
		})
	}
}
