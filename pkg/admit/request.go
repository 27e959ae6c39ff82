package admit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Old returns the object before an update; nil on creation or outside an admission request.
func Old[T any](ctx context.Context) (*T, error) {
	req := request(ctx)
	if len(req.OldObject.Raw) == 0 {
		return nil, nil
	}
	var old T
	if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
		return nil, fmt.Errorf("read old object: %w", err)
	}
	return &old, nil
}

// Namespace returns the namespace of the request, because the object itself may lack it.
func Namespace(ctx context.Context, o client.Object) string {
	if n := request(ctx).Namespace; n != "" {
		return n
	}
	return o.GetNamespace()
}

// request returns the admission request from ctx; an empty one if there is none.
func request(ctx context.Context) admission.Request {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return admission.Request{}
	}
	return req
}

// Ratchet splits faults into new ones and those that the old object has as well, which become warnings: an object that is older than a rule,
// such as one created with OpenKruise, can still be scaled and updated.
func Ratchet(faults, before field.ErrorList) (fresh field.ErrorList, warnings admission.Warnings) {
	for _, f := range faults {
		if slices.ContainsFunc(before, func(b *field.Error) bool { return b.Error() == f.Error() }) {
			warnings = append(warnings, f.Error())
		} else {
			fresh = append(fresh, f)
		}
	}
	return fresh, warnings
}

// NewWarnings returns the warnings that the old object doesn't have: accepted ones are not repeated on each update.
func NewWarnings(warnings, before admission.Warnings) admission.Warnings {
	return slices.DeleteFunc(slices.Clone(warnings), func(s string) bool { return slices.Contains(before, s) })
}

// Invalid returns the rejection of an object; nil if there are no faults.
func Invalid(kind schema.GroupVersionKind, name string, faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kind.GroupKind(), name, faults)
}
