package ownership

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Passed reports whether a write was refused because the object is gone, has changed, or was replaced since it was read. The watch event for
// that is on its way.
func Passed(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || IsOtherUID(err)
}

// IsOtherUID reports whether a patch or an apply was refused because the name now belongs to a different object than the one that was read: the
// API server treats a UID in the request as an immutable field, as in Kubernetes 1.36.
func IsOtherUID(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) && status.Status().Details != nil &&
		slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// ControllerRef is like metav1.NewControllerRef, but doesn't block the deletion of the owner, which needs a permission to change the owner's
// finalizers.
func ControllerRef(owner metav1.Object, gvk schema.GroupVersionKind) metav1.OwnerReference {
	ref := *metav1.NewControllerRef(owner, gvk)
	ref.BlockOwnerDeletion = nil
	return ref
}
