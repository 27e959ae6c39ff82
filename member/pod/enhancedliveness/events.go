package enhancedliveness

// Feature is the name of the feature in flags, events, logs and metrics.
const Feature = "EnhancedLiveness"

// Reasons of events on pods. reasonUnhealthy is from Kubernetes.
const (
	// reasonUnhealthy: a liveness probe failed, and the container is restarted.
	reasonUnhealthy = "Unhealthy"
	// reasonDelayed: a liveness probe failed, and the container waits for a budget.
	reasonDelayed = "LivenessRestartDelayed"
	// reasonUnreadable: the annotation with the liveness probes can't be parsed, so the probes don't run.
	reasonUnreadable = "UnreadableLivenessProbe"
	// ReasonFailed: the restart could not be requested. It is retried.
	ReasonFailed = "FailedLivenessRestart"
)

// action is the action of events.
const action = "RestartContainer"
