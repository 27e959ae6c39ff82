package statefulset

import (
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// Reasons of events that only a StatefulSet has; the others are in package podcontrol.
const (
	// reasonSuccessfulResize means that PVCs were patched to the size in their template.
	reasonSuccessfulResize = "SuccessfulResize"
	// reasonFailedResize means that a PVC could not be patched.
	reasonFailedResize = "FailedResize"
)

func resized(names []string) event.Event {
	return event.Normal(reasonSuccessfulResize, podcontrol.ActionUpdate, "requested a resize of %d PVC(s): %s", len(names), event.Names(names))
}

func failedResize(err error) event.Event {
	return event.Warning(reasonFailedResize, podcontrol.ActionUpdate, "%v", err)
}
