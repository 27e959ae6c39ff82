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

// Old returns the object before an update, nil on a creation or outside of an admission request.
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

// Namespace is that of the request: the object itself may lack it.
func Namespace(ctx context.Context, o client.Object) string {
	if n := request(ctx).Namespace; n != "" {
		return n
	}
	return o.GetNamespace()
}

// request is the admission request that ctx belongs to, an empty one if there is none.
func request(ctx context.Context) admission.Request {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return admission.Request{}
	}
	return req
}

// Ratchet splits faults into new ones and those that the old object had as well, which become warnings: an object that is older
// than a rule, such as one that another controller left, can still be scaled and updated.
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

// News returns the warnings that were not there before: what was accepted once is not said again with each change.
func News(warnings, before admission.Warnings) admission.Warnings {
	return slices.DeleteFunc(slices.Clone(warnings), func(s string) bool { return slices.Contains(before, s) })
}

// Invalid is the refusal of an object, nil without faults.
func Invalid(kind schema.GroupVersionKind, name string, faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kind.GroupKind(), name, faults)
}
