package measure

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// measureAdvancedCronJob judges by the latest run that has ended. A schedule is healthy even while a run is active or the schedule is paused.
// It reports no counts; otherwise each run would cause two writes on the hub.
func measureAdvancedCronJob(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	cron := &struct {
		Status appsv1beta1.AdvancedCronJobStatus `json:"status"` // Both versions share this status.
	}{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, cron); err != nil {
		unreadable(s, err)
		return
	}
	s.Phase = fleetv1alpha1.WorkHealthy
	if cron.Status.ObservedGeneration <= 0 { // No controller has seen it: the schema's default is -1.
		s.Phase = fleetv1alpha1.WorkApplied
	}
	for i := range cron.Status.Runs { // The newest run comes first.
		switch run := &cron.Status.Runs[i]; run.Phase {
		case appsv1beta1.AdvancedCronJobSucceeded:
			return
		case appsv1beta1.AdvancedCronJobFailed:
			s.Phase, s.Reason = fleetv1alpha1.WorkDegraded, reasonFailed
			s.Message = fmt.Sprintf("its latest run, %s, failed", run.Name)
			return
		case appsv1beta1.AdvancedCronJobRunning, appsv1beta1.AdvancedCronJobRemoved: // These say nothing about health.
		}
	}
}
