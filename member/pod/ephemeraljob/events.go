package ephemeraljob

// Reasons of events and conditions.
const (
	// reasonContainersAdded: pods got the containers. Event only.
	reasonContainersAdded = "ContainersAdded"
	// reasonCreateFailed: the containers could not be added to pods.
	reasonCreateFailed = "CreateFailed"
	// reasonInvalidSpec: the spec is invalid.
	reasonInvalidSpec = "InvalidSpec"
	// reasonJobSucceeded: the containers in all pods succeeded.
	reasonJobSucceeded = "JobSucceeded"
	// reasonContainersFailed: all containers have finished, and some failed.
	reasonContainersFailed = "ContainersFailed"
	// reasonDeadlineExceeded: the job had not finished at its deadline.
	reasonDeadlineExceeded = "DeadlineExceeded"
)

// Reasons that only conditions use.
const (
	initialized = "Initialized"
	matchEmpty  = "MatchEmpty"
)

// actionRun is the action of events.
const actionRun = "RunJob"
