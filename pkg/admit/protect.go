package admit

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// unprotected adds to a kind's validation a warning for who believes in a protection that is not served.
type unprotected[T client.Object] struct{ admission.Validator[T] }

// ValidateCreate warns where the label is there.
func (u unprotected[T]) ValidateCreate(ctx context.Context, o T) (admission.Warnings, error) {
	warnings, err := u.Validator.ValidateCreate(ctx, o)
	return append(warnings, believes("", o)...), err
}

// ValidateUpdate warns where the label comes or changes: not at each later write of the object.
func (u unprotected[T]) ValidateUpdate(ctx context.Context, old, o T) (admission.Warnings, error) {
	warnings, err := u.Validator.ValidateUpdate(ctx, old, o)
	return append(warnings, believes(old.GetLabels()[keys.DeleteProtection], o)...), err
}

// believes returns a warning if the label's value is there and not the one it had before.
func believes(before string, o client.Object) admission.Warnings {
	value := o.GetLabels()[keys.DeleteProtection]
	if value == "" || value == before {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("label %s: %s is not served yet and protects nothing: a delete deletes the object and its pods",
		keys.DeleteProtection, value)}
}
