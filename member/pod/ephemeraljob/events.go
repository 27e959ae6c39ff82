package ephemeraljob

// Reasons of events and conditions.
const (
	// ReasonContainersAdded: pods were given the containers. Event only.
	ReasonContainersAdded = "ContainersAdded"
	// ReasonCreateFailed: pods could not be given the containers.
	ReasonCreateFailed = "CreateFailed"
	// ReasonInvalidSpec: the spec is invalid.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonJobSucceeded: the containers of all pods have succeeded.
	ReasonJobSucceeded = "JobSucceeded"
	// ReasonContainersFailed: all containers have ended, and some have failed.
	ReasonContainersFailed = "ContainersFailed"
	// ReasonDeadlineExceeded: the job had not ended at its deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
)

// Reasons of conditions alone.
const (
	initialized = "Initialized"
	matchEmpty  = "MatchEmpty"
)

// actionRun is the action of events.
const actionRun = "RunJob"
