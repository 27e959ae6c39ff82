package enhancedliveness

// Feature is the name in flags, events, logs and metrics.
const Feature = "EnhancedLiveness"

// Reasons of events on pods. Source of the first one: Kubernetes.
const (
	// ReasonUnhealthy: a liveness probe has failed, and its container is restarted.
	ReasonUnhealthy = "Unhealthy"
	// ReasonDelayed: a liveness probe has failed, and its container waits for a budget.
	ReasonDelayed = "LivenessRestartDelayed"
	// ReasonUnreadable: the annotation with the liveness probes is none, so they are not run.
	ReasonUnreadable = "UnreadableLivenessProbe"
	// ReasonFailed: the restart could not be requested; this is retried.
	ReasonFailed = "FailedLivenessRestart"
)

// action is the action of events.
const action = "RestartContainer"
