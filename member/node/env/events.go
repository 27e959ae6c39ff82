package env

import "github.com/flotilla-io/flotilla/pkg/event"

// Reasons of events on pods.
const (
	// ReasonKilling: a container is stopped, so that the kubelet restarts it.
	ReasonKilling = "Killing"
	// ReasonFailedPreStopHook: the preStop hook failed; the container is stopped nevertheless.
	ReasonFailedPreStopHook = "FailedPreStopHook"
	// ReasonFailedKill: the runtime could not stop a container.
	ReasonFailedKill = "FailedKillContainer"
)

const actionRestart = "Restart"

func killingEvent(s restart) event.Event {
	return event.Normal(ReasonKilling, actionRestart, "stopping container %s: %s", s.name, s.why)
}

func failedHookEvent(name string, err error) event.Event {
	return event.Warning(ReasonFailedPreStopHook, actionRestart, "container %s: %v", name, err)
}

func failedStopEvent(name string, err error) event.Event {
	return event.Warning(ReasonFailedKill, actionRestart, "container %s: %v", name, err)
}
