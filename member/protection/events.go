package protection

import "github.com/flotilla-io/flotilla/pkg/control/event"

// reasonProtected is the reason of the event on an object whose deletion was refused because of its label.
const reasonProtected = "DeleteProtected"

func refusedEvent(user, why string) event.Event {
	return event.Warning(reasonProtected, "Delete", "Refused the deletion by %s: %s", user, why)
}
