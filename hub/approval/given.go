package approval

import (
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/rollout"
)

// Given reports whether a wave of a revision is approved. target is the UID of the object that is rolled out: approvals of an earlier object
// with the same name don't count. Nor do those that are being deleted, and those without a UID, which the webhook has not seen.
func Given(approvals []fleetv1alpha1.RolloutApproval, target types.UID, revision, wave string) bool {
	for i := range approvals {
		a := &approvals[i]
		if target != "" && a.Spec.Target.UID == string(target) && a.Spec.Revision == revision && a.Spec.Wave == wave && a.DeletionTimestamp.IsZero() {
			return true
		}
	}
	return false
}

// Obsolete returns the approvals that never count again, because they are for an object with another UID, or for a revision that the target no
// longer has. target is the UID of the target, or "" if it is gone: then all are obsolete. All approvals must have the name of the target.
func Obsolete(approvals []fleetv1alpha1.RolloutApproval, target types.UID, has func(revision string) bool) []*fleetv1alpha1.RolloutApproval {
	var out []*fleetv1alpha1.RolloutApproval
	for i := range approvals {
		a := &approvals[i]
		if a.DeletionTimestamp.IsZero() && (target == "" || a.Spec.Target.UID != string(target) || !has(a.Spec.Revision)) {
			out = append(out, a)
		}
	}
	return out
}

// waits returns the waves of a plan whose gates include one of type Approval.
func waits(plan *pods.RolloutPlan) []string {
	var out []string
	for i := range plan.Waves {
		w := &plan.Waves[i]
		if _, approval := rollout.Gates(w.Gates, plan.Gates); approval {
			out = append(out, w.Name)
		}
	}
	return out
}

// names returns the waves of a plan.
func names(plan *pods.RolloutPlan) []string {
	out := make([]string, 0, len(plan.Waves))
	for i := range plan.Waves {
		out = append(out, plan.Waves[i].Name)
	}
	return out
}
