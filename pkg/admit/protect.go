package admit

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// unprotected adds a warning to a kind's validation: deletion protection is not supported yet.
type unprotected[T client.Object] struct{ admission.Validator[T] }

// ValidateCreate warns if the object has the label.
func (u unprotected[T]) ValidateCreate(ctx context.Context, o T) (admission.Warnings, error) {
	warnings, err := u.Validator.ValidateCreate(ctx, o)
	return append(warnings, Unprotected(o.GetLabels(), nil)...), err
}

// ValidateUpdate warns at each change of labels or spec while the object has the label: it may be older than this manager and rely
// on a protection that ended with OpenKruise. Other writes, such as those of finalizers, come from controllers.
func (u unprotected[T]) ValidateUpdate(ctx context.Context, old, o T) (admission.Warnings, error) {
	warnings, err := u.Validator.ValidateUpdate(ctx, old, o)
	if old.GetGeneration() == o.GetGeneration() && maps.Equal(old.GetLabels(), o.GetLabels()) {
		return warnings, err
	}
	return append(warnings, Unprotected(o.GetLabels(), nil)...), err
}

// Unprotected returns a warning if labels ask for deletion protection; path is that of the object in another one, nil for an
// object itself.
func Unprotected(labels map[string]string, path *field.Path) admission.Warnings {
	value := labels[keys.DeleteProtection]
	if value == "" {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%s: %s is not served yet and protects nothing: a delete deletes the object and its pods",
		path.Child("metadata", "labels").Key(keys.DeleteProtection), value)}
}
