package measure

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// reasonTargetGone is the reason of a WorkloadSpread whose workload does not exist. The hub sends the workload after the WorkloadSpread.
const reasonTargetGone = "TargetGone"

// measureWorkloadSpread reports the pods of each subset, and how many of them can't be scheduled. The hub moves those to another cluster.
func measureWorkloadSpread(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	ws := &appsv1beta1.WorkloadSpread{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, ws); err != nil {
		unreadable(s, err)
		return
	}
	for i, sub := range ws.Status.SubsetStatuses {
		if i == fleetv1alpha1.SubsetsPerRow {
			break
		}
		c := fleetv1alpha1.WorkCounts{Replicas: sub.Replicas, Unschedulable: sub.UnschedulableReplicas}
		s.Counts.Replicas += c.Replicas
		s.Counts.Unschedulable += c.Unschedulable
		s.Subsets = append(s.Subsets, fleetv1alpha1.SubsetCounts{Name: sub.Name, WorkCounts: c})
	}
	active := report.GetCondition(ws.Status.Conditions, appsv1beta1.WorkloadSpreadActive)
	switch {
	case active == nil:
		s.Phase = fleetv1alpha1.WorkProgressing
	case active.Status == metav1.ConditionTrue:
		s.Phase = fleetv1alpha1.WorkHealthy
	case active.Reason == reasonTargetGone:
		s.Phase = fleetv1alpha1.WorkApplied
	default:
		s.Phase, s.Reason, s.Message = fleetv1alpha1.WorkDegraded, active.Reason, active.Message
	}
}
