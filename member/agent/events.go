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

	// EventHubRefused, on the Membership: another hub wants this cluster, or can't be reached, while one holds the claim.
	EventHubRefused = "HubRefused"

	actionApply   = "Apply"
	actionConnect = "Connect"
)

func driftEvent(paths []string) event.Event {
	return event.Warning(EventDrift, actionApply, "Put back what was changed here: %s. Change it on the hub.", strings.Join(paths, ", "))
}

func strandedEvent(err error) event.Event {
	return event.Warning(EventStranded, actionConnect, "%s", err)
}

func contendedEvent(v *verdict) event.Event {
	return event.Warning(EventContended, actionApply, "%s", v.message)
}

func refusedEvent(why string) event.Event {
	return event.Warning(EventHubRefused, actionConnect, "Refused a hub that does not own this cluster: %s", why)
}
