package agent

import (
	"strings"

	"github.com/flotilla-io/flotilla/pkg/event"
)

// Reasons and actions of events, on objects in the member.
const (
	// EventDrift: somebody changed what the hub asks for, and it was put back.
	EventDrift = "DriftPutBack"
	// EventContended: it is changed again after each time that it is put back.
	EventContended = reasonContended

	actionApply = "Apply"
)

func driftEvent(paths []string) event.Event {
	return event.Warning(EventDrift, actionApply, "Put back what was changed here: %s. Change it on the hub.", strings.Join(paths, ", "))
}

func contendedEvent(v *verdict) event.Event {
	return event.Warning(EventContended, actionApply, "%s", v.message)
}
