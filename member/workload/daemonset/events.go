package daemonset

import (
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
)

// Reasons of events that only a DaemonSet has; the others are those of package pass.
const (
	// ReasonSelectingAll: the selector selects all pods, so nothing is done.
	ReasonSelectingAll = "SelectingAll"
	// ReasonFailedPlacement: a pod finds no room on its node.
	ReasonFailedPlacement = "FailedPlacement"
	// ReasonFailedDaemonPod: pods had ended, and were deleted to be made anew.
	ReasonFailedDaemonPod = "FailedDaemonPod"
)

func selectingAll(why string) event.Event {
	return event.Warning(ReasonSelectingAll, podcontrol.ActionObserve, "%s", why)
}

func failedPlacement(why string) event.Event {
	return event.Warning(ReasonFailedPlacement, podcontrol.ActionScaleOut, "%s", why)
}

func failedDaemonPods(names []string) event.Event {
	return event.Warning(ReasonFailedDaemonPod, podcontrol.ActionScaleIn, "%d pods had ended, to be made anew: %s", len(names), event.Names(names))
}
