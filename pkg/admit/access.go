package admit

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Access asks the API server whether the user of the request in ctx has a permission, and returns that user's name.
func Access(ctx context.Context, c client.Client, what authorizationv1.ResourceAttributes) (user string, allowed bool, err error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return "", false, fmt.Errorf("read the request's user: %w", err)
	}
	by := req.UserInfo
	extra := make(map[string]authorizationv1.ExtraValue, len(by.Extra))
	for k, v := range by.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: by.Username, UID: by.UID, Groups: by.Groups, Extra: extra, ResourceAttributes: &what,
	}}
	if err := c.Create(ctx, review); err != nil {
		return by.Username, false, fmt.Errorf("review access of %s: %w", by.Username, err)
	}
	return by.Username, review.Status.Allowed, nil
}
