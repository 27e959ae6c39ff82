package recreate

import (
	"time"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Reasons of the conditions Ready, Reconciling and Stalled.
const (
	reasonPending   = "Pending"
	reasonNotAll    = "NotAllRestarted"
	whyReady        = "the containers were restarted"
	whyReconciling  = "containers are being restarted"
	whyFailedBefore = "a container was not restarted: status.containerRecreateStates says which"
)

// Observe completes the status of a request that is about to be written, with the generation that it applies to and the progress of the request.
// Both the manager and the node daemon write statuses.
func Observe(r *appsv1beta1.ContainerRecreateRequest, now time.Time) {
	r.Status.ObservedGeneration = r.Generation
	r.Status.Conditions = report.SetReadiness(r.Status.Conditions, readiness(r), r.Generation, now)
}

// readiness returns whether the containers have been restarted. A completed request is final.
func readiness(r *appsv1beta1.ContainerRecreateRequest) report.Readiness {
	s := &r.Status
	switch {
	case !Done(r) && s.Phase != appsv1beta1.RecreateRecreating:
		return report.Reconciling(reasonPending, s.Message)
	case !Done(r):
		return report.Reconciling(Began, whyReconciling)
	case s.Message != "": // The manager gave up, or the daemon names the container that failed.
		return report.Stalled(report.Failure{Reason: reasonNotAll, Message: s.Message})
	}
	for i := range s.ContainerRecreateStates {
		if s.ContainerRecreateStates[i].Phase != appsv1beta1.RecreateSucceeded {
			return report.Stalled(report.Failure{Reason: reasonNotAll, Message: whyFailedBefore})
		}
	}
	return report.Ready(whyReady)
}
