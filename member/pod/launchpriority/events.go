package launchpriority

// Reasons of events on pods.
const (
	// eventStalled: containers have not become ready for five minutes, and others wait for them.
	eventStalled = "ContainerLaunchStalled"
	// eventTaken: the ConfigMap that the containers wait for exists but doesn't belong to the pod.
	eventTaken = "LaunchConfigMapTaken"
)

const actionLaunch = "Launch"
