package enhancedliveness

// Feature is the name of the feature in flags, events, logs and metrics.
const Feature = "EnhancedLiveness"

// Reasons of events on pods. ReasonUnhealthy is from Kubernetes.
const (
	// ReasonUnhealthy: a liveness probe failed, and the container is restarted.
	ReasonUnhealthy = "Unhealthy"
	// ReasonDelayed: a liveness probe failed, and the container waits for a budget.
	ReasonDelayed = "LivenessRestartDelayed"
	// ReasonUnreadable: the annotation with the liveness probes can't be parsed, so the probes don't run.
	ReasonUnreadable = "UnreadableLivenessProbe"
	// ReasonFailed: the restart could not be requested. It is retried.
	ReasonFailed = "FailedLivenessRestart"
)

// action is the action of events.
const action = "RestartContainer"
