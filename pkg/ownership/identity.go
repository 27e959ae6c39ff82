package ownership

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Passed reports whether a write was refused because what was read is gone, has changed, or was replaced: its event is on the way.
func Passed(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || IsOtherUID(err)
}

// IsOtherUID reports whether a patch or an apply was refused because another object has the name than the one that was read: to the
// apiserver a UID in it is an immutable field, as in kube 1.36.
func IsOtherUID(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) && status.Status().Details != nil &&
		slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
