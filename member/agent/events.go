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
	// EventStranded, on the Membership: the certificate for the hub has ended, and there is no token that is good.
	EventStranded = "NoWayToHub"

	actionApply = "Apply"
)

func driftEvent(paths []string) event.Event {
	return event.Warning(EventDrift, actionApply, "Put back what was changed here: %s. Change it on the hub.", strings.Join(paths, ", "))
}

func strandedEvent(err error) event.Event {
	return event.Warning(EventStranded, "Connect", "%s", err)
}

func contendedEvent(v *verdict) event.Event {
	return event.Warning(EventContended, actionApply, "%s", v.message)
}
