package approval

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// +kubebuilder:rbac:groups=fleet.kruise.io,resources=rolloutapprovals,verbs=get;list;watch;delete

// byTarget is the index of approvals by kind and name of their target.
const byTarget = "flotilla.approvalTarget"

// Index adds the index that List uses.
func Index(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "approvals by target", &fleetv1alpha1.RolloutApproval{}, byTarget, func(o client.Object) []string {
		return []string{targetOf(o.(*fleetv1alpha1.RolloutApproval).Spec.Target)}
	})
}

func targetOf(t fleetv1alpha1.RolloutTarget) string { return string(t.Kind) + "/" + t.Name }

// List returns the approvals of an object, and of earlier objects with its name. They point into the cache and must not be changed.
func List(
	ctx context.Context, cache client.Reader, kind fleetv1alpha1.RolloutTargetKind, key client.ObjectKey,
) ([]fleetv1alpha1.RolloutApproval, error) {
	target := targetOf(fleetv1alpha1.RolloutTarget{Kind: kind, Name: key.Name})
	list := &fleetv1alpha1.RolloutApprovalList{}
	err := cache.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{byTarget: target}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list approvals of %s: %w", key, err)
	}
	return list.Items, nil
}

// Remove deletes approvals.
func Remove(ctx context.Context, c client.Writer, approvals []*fleetv1alpha1.RolloutApproval) error {
	var errs []error
	for _, a := range approvals {
		if err := c.Delete(ctx, a, client.Preconditions{UID: &a.UID}); err != nil && !ownership.Passed(err) {
			errs = append(errs, fmt.Errorf("delete approval %s: %w", a.Name, err))
		}
	}
	return errors.Join(errs...)
}
