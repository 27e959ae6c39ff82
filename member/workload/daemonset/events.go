package daemonset

import (
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// Reasons of events that only a DaemonSet has; the others are in package podcontrol.
const (
	// reasonSelectingAll means that the selector matches all pods, so nothing is done.
	reasonSelectingAll = "SelectingAll"
	// reasonFailedPlacement means that a pod can't be scheduled on its node.
	reasonFailedPlacement = "FailedPlacement"
	// reasonFailedDaemonPod means that pods had ended and were deleted to be re-created.
	reasonFailedDaemonPod = "FailedDaemonPod"
)

func selectingAll(why string) event.Event {
	return event.Warning(reasonSelectingAll, podcontrol.ActionObserve, "%s", why)
}

func failedPlacement(why string) event.Event {
	return event.Warning(reasonFailedPlacement, podcontrol.ActionScaleOut, "%s", why)
}

func failedDaemonPods(names []string) event.Event {
	return event.Warning(reasonFailedDaemonPod, podcontrol.ActionScaleIn, "deleted %d pod(s) that had ended, to re-create them: %s",
		len(names), event.Names(names))
}
