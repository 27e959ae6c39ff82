package v1alpha1

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// The two versions of WorkloadSpread differ only in the names of node selectors and in the type of conditions, so that nothing has to be
// preserved.

// reasonUnknown replaces an empty reason in v1beta1, which requires a reason.
const reasonUnknown = "Unknown"

// WorkloadSpreadToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func WorkloadSpreadToHub(_ context.Context, src *WorkloadSpread, dst *appsv1beta1.WorkloadSpread) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	dst.Spec = appsv1beta1.WorkloadSpreadSpec{
		TargetRef: in.Spec.TargetRef, TargetFilter: in.Spec.TargetFilter, ScheduleStrategy: in.Spec.ScheduleStrategy,
		OverflowPolicy: in.Spec.OverflowPolicy, Placement: in.Spec.Placement,
		Subsets: each(in.Spec.Subsets, func(s WorkloadSpreadSubset) appsv1beta1.WorkloadSpreadSubset {
			return appsv1beta1.WorkloadSpreadSubset{
				Name: s.Name, RequiredNodeSelector: s.RequiredNodeSelectorTerm, PreferredNodeSelector: s.PreferredNodeSelectorTerms,
				Tolerations: s.Tolerations, MaxReplicas: s.MaxReplicas, Patch: s.Patch, Cluster: s.Cluster, ClusterSelector: s.ClusterSelector,
			}
		}),
	}
	status := func(s WorkloadSpreadSubsetStatus) appsv1beta1.WorkloadSpreadSubsetStatus {
		return appsv1beta1.WorkloadSpreadSubsetStatus{
			Name: s.Name, Replicas: s.Replicas, MissingReplicas: s.MissingReplicas, Cluster: s.Cluster, Stale: s.Stale,
			UnschedulableReplicas: s.UnschedulableReplicas, CreatingPods: s.CreatingPods, DeletingPods: s.DeletingPods,
			Conditions: each(s.Conditions, func(c WorkloadSpreadSubsetCondition) metav1.Condition {
				if c.Reason == "" {
					c.Reason = reasonUnknown
				}
				return metav1.Condition{
					Type: c.Type, Status: metav1.ConditionStatus(c.Status), LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
				}
			}),
		}
	}
	dst.Status = appsv1beta1.WorkloadSpreadStatus{
		ObservedGeneration: in.Status.ObservedGeneration, SubsetStatuses: each(in.Status.SubsetStatuses, status), Conditions: in.Status.Conditions,
	}
	if in.Status.VersionedSubsetStatuses != nil {
		dst.Status.VersionedSubsetStatuses = make(map[string]appsv1beta1.WorkloadSpreadSubsetStatuses, len(in.Status.VersionedSubsetStatuses))
		for version, statuses := range in.Status.VersionedSubsetStatuses {
			dst.Status.VersionedSubsetStatuses[version] = each(statuses, status)
		}
	}
	return nil
}

// WorkloadSpreadFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func WorkloadSpreadFromHub(_ context.Context, src *appsv1beta1.WorkloadSpread, dst *WorkloadSpread) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	dst.Spec = WorkloadSpreadSpec{
		TargetRef: in.Spec.TargetRef, TargetFilter: in.Spec.TargetFilter, ScheduleStrategy: in.Spec.ScheduleStrategy,
		OverflowPolicy: in.Spec.OverflowPolicy, Placement: in.Spec.Placement,
		Subsets: each(in.Spec.Subsets, func(s appsv1beta1.WorkloadSpreadSubset) WorkloadSpreadSubset {
			return WorkloadSpreadSubset{
				Name: s.Name, RequiredNodeSelectorTerm: s.RequiredNodeSelector, PreferredNodeSelectorTerms: s.PreferredNodeSelector,
				Tolerations: s.Tolerations, MaxReplicas: s.MaxReplicas, Patch: s.Patch, Cluster: s.Cluster, ClusterSelector: s.ClusterSelector,
			}
		}),
	}
	status := func(s appsv1beta1.WorkloadSpreadSubsetStatus) WorkloadSpreadSubsetStatus {
		return WorkloadSpreadSubsetStatus{
			Name: s.Name, Replicas: s.Replicas, MissingReplicas: s.MissingReplicas, Cluster: s.Cluster, Stale: s.Stale,
			UnschedulableReplicas: s.UnschedulableReplicas, CreatingPods: s.CreatingPods, DeletingPods: s.DeletingPods,
			Conditions: each(s.Conditions, func(c metav1.Condition) WorkloadSpreadSubsetCondition {
				if c.Reason == reasonUnknown {
					c.Reason = ""
				}
				return WorkloadSpreadSubsetCondition{
					Type: c.Type, Status: corev1.ConditionStatus(c.Status), LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
				}
			}),
		}
	}
	dst.Status = WorkloadSpreadStatus{
		ObservedGeneration: in.Status.ObservedGeneration, SubsetStatuses: each(in.Status.SubsetStatuses, status), Conditions: in.Status.Conditions,
	}
	if in.Status.VersionedSubsetStatuses != nil {
		dst.Status.VersionedSubsetStatuses = make(map[string]WorkloadSpreadSubsetStatuses, len(in.Status.VersionedSubsetStatuses))
		for version, statuses := range in.Status.VersionedSubsetStatuses {
			dst.Status.VersionedSubsetStatuses[version] = each(statuses, status)
		}
	}
	return nil
}

// each converts a list. A nil list stays nil.
func each[A, B any](list []A, convert func(A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, 0, len(list))
	for _, a := range list {
		out = append(out, convert(a))
	}
	return out
}
