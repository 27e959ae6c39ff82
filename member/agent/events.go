package agent

import (
	"strings"

	"github.com/flotilla-io/flotilla/pkg/event"
)

// Reasons and actions of events, on objects in the member.
const (
	// EventDrift: another writer changed an object of the hub, and the change was reverted.
	EventDrift = "DriftReverted"
	// EventContended: it is changed again each time after it was reverted.
	EventContended = reasonContended
	// EventStranded, on the Membership: the certificate for the hub has expired, and there is no valid token.
	EventStranded = "NoWayToHub"

	// EventHubRefused, on the Membership: the cluster is bound to a hub, and another one wants it, or can't be reached.
	EventHubRefused = "HubRefused"

	actionApply   = "Apply"
	actionConnect = "Connect"
)

func driftEvent(paths []string) event.Event {
	return event.Warning(EventDrift, actionApply, "Reverted changes of %s. Change them on the hub.", strings.Join(paths, ", "))
}

func strandedEvent(err error) event.Event {
	return event.Warning(EventStranded, actionConnect, "%s", err)
}

func contendedEvent(v *problem) event.Event {
	return event.Warning(EventContended, actionApply, "%s", v.message)
}

func refusedEvent(why string) event.Event {
	return event.Warning(EventHubRefused, actionConnect, "Refused a hub that does not own this cluster: %s", why)
}
