package launchpriority

// Reasons of events on pods.
const (
	// EventStalled: containers have not become ready for five minutes, and others wait for them.
	EventStalled = "ContainerLaunchStalled"
	// EventTaken: the ConfigMap that the containers wait for exists but doesn't belong to the pod.
	EventTaken = "LaunchConfigMapTaken"
)

const actionLaunch = "Launch"
