package approval

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
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

// Obsolete returns the approvals that never count again: those of another UID than that of the target, and those of revisions that the target
// no longer has. approvals are those with its name. If the target is gone, all are obsolete, and target is "".
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
	approval := func(g pods.RolloutGate) bool { return g.Type == pods.ApprovalGate }
	all := slices.ContainsFunc(plan.Gates, approval)
	var out []string
	for i := range plan.Waves {
		if w := &plan.Waves[i]; all || slices.ContainsFunc(w.Gates, approval) {
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
