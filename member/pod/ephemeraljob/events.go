package ephemeraljob

// Reasons of events and conditions.
const (
	// ReasonContainersAdded: pods got the containers. Event only.
	ReasonContainersAdded = "ContainersAdded"
	// ReasonCreateFailed: the containers could not be added to pods.
	ReasonCreateFailed = "CreateFailed"
	// ReasonInvalidSpec: the spec is invalid.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonJobSucceeded: the containers in all pods succeeded.
	ReasonJobSucceeded = "JobSucceeded"
	// ReasonContainersFailed: all containers have finished, and some failed.
	ReasonContainersFailed = "ContainersFailed"
	// ReasonDeadlineExceeded: the job had not finished at its deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
)

// Reasons that only conditions use.
const (
	initialized = "Initialized"
	matchEmpty  = "MatchEmpty"
)

// actionRun is the action of events.
const actionRun = "RunJob"
