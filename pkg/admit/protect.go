package admit

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// unprotected adds a warning to a kind's validation: deletion protection is not supported yet.
type unprotected[T client.Object] struct{ admission.Validator[T] }

// ValidateCreate warns if the object has the label.
func (u unprotected[T]) ValidateCreate(ctx context.Context, o T) (admission.Warnings, error) {
	warnings, err := u.Validator.ValidateCreate(ctx, o)
	return append(warnings, protectionWarning("", o)...), err
}

// ValidateUpdate warns if the label was added or changed, not at each later update.
func (u unprotected[T]) ValidateUpdate(ctx context.Context, old, o T) (admission.Warnings, error) {
	warnings, err := u.Validator.ValidateUpdate(ctx, old, o)
	return append(warnings, protectionWarning(old.GetLabels()[keys.DeleteProtection], o)...), err
}

// protectionWarning returns a warning if the label is set and has another value than before.
func protectionWarning(before string, o client.Object) admission.Warnings {
	value := o.GetLabels()[keys.DeleteProtection]
	if value == "" || value == before {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("label %s: %s is not served yet and protects nothing: a delete deletes the object and its pods",
		keys.DeleteProtection, value)}
}
