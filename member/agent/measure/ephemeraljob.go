package measure

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// nothingShrinks is for kinds that maintain no number of replicas. The numbers of an EphemeralJob only say how many pods it starts with.
func nothingShrinks(_, _ *unstructured.Unstructured) string { return "" }

// measureEphemeralJob reports pods as replicas: those that are to get the containers. Pods where the containers have succeeded count as available.
func measureEphemeralJob(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	job := &appsv1alpha1.EphemeralJob{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, job); err != nil {
		unreadable(s, err)
		return
	}
	st := &job.Status
	s.Counts = fleetv1alpha1.WorkCounts{
		Desired: st.Matches, Replicas: st.Running + st.Succeeded + st.Failed, Ready: st.Succeeded, Available: st.Succeeded,
	}
	degraded := func(by appsv1alpha1.EphemeralJobConditionType) {
		s.Phase, s.Reason = fleetv1alpha1.WorkDegraded, reasonFailed
		for i := range st.Conditions {
			if st.Conditions[i].Type == by {
				s.Message = st.Conditions[i].Message
			}
		}
	}
	switch st.Phase {
	case "":
		s.Phase = fleetv1alpha1.WorkApplied
	case appsv1alpha1.EphemeralJobSucceeded:
		s.Phase = fleetv1alpha1.WorkHealthy
	case appsv1alpha1.EphemeralJobFailed:
		degraded(appsv1alpha1.EphemeralJobConditionFailed)
	case appsv1alpha1.EphemeralJobError:
		degraded(appsv1alpha1.EphemeralJobConditionError)
	case appsv1alpha1.EphemeralJobWaiting, appsv1alpha1.EphemeralJobRunning, appsv1alpha1.EphemeralJobPause:
		s.Phase = fleetv1alpha1.WorkProgressing
	default:
		s.Phase = fleetv1alpha1.WorkProgressing
	}
}
