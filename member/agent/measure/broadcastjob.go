package measure

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// measureBroadcastJob reports nodes as replicas: those that have or had a pod. Nodes where the pod has succeeded count as available. A job that never
// completes is healthy while no node waits for its pod to end.
func measureBroadcastJob(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	job := &appsv1beta1.BroadcastJob{} // Both versions have the same schema.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, job); err != nil {
		unreadable(s, err)
		return
	}
	st := &job.Status
	s.Counts = fleetv1alpha1.WorkCounts{
		Desired: st.Desired, Replicas: st.Active + st.Succeeded + st.Failed, Ready: st.Succeeded, Available: st.Succeeded,
	}
	switch never := job.Spec.CompletionPolicy.Type == appsv1beta1.BroadcastJobNever; {
	case st.Phase == "":
		s.Phase = fleetv1alpha1.WorkApplied
	case st.Phase == appsv1beta1.BroadcastJobFailed:
		s.Phase, s.Reason = fleetv1alpha1.WorkDegraded, reasonFailed
		for i := range st.Conditions {
			if st.Conditions[i].Type == appsv1beta1.BroadcastJobConditionFailed {
				s.Message = st.Conditions[i].Message
			}
		}
	case st.Phase == appsv1beta1.BroadcastJobCompleted,
		never && st.Phase == appsv1beta1.BroadcastJobRunning && st.Succeeded+st.Failed >= st.Desired:
		s.Phase = fleetv1alpha1.WorkHealthy
	default:
		s.Phase = fleetv1alpha1.WorkProgressing
	}
}
