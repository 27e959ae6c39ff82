package daemonset

import (
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// Reasons of events that only a DaemonSet has; the others are in package podcontrol.
const (
	// ReasonSelectingAll means that the selector matches all pods, so nothing is done.
	ReasonSelectingAll = "SelectingAll"
	// ReasonFailedPlacement means that a pod can't be scheduled on its node.
	ReasonFailedPlacement = "FailedPlacement"
	// ReasonFailedDaemonPod means that pods had ended and were deleted to be re-created.
	ReasonFailedDaemonPod = "FailedDaemonPod"
)

func selectingAll(why string) event.Event {
	return event.Warning(ReasonSelectingAll, podcontrol.ActionObserve, "%s", why)
}

func failedPlacement(why string) event.Event {
	return event.Warning(ReasonFailedPlacement, podcontrol.ActionScaleOut, "%s", why)
}

func failedDaemonPods(names []string) event.Event {
	return event.Warning(ReasonFailedDaemonPod, podcontrol.ActionScaleIn, "deleted %d pod(s) that had ended, to re-create them: %s",
		len(names), event.Names(names))
}
