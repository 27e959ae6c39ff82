package broadcastjob

// Reasons of events that only a BroadcastJob has; the others are in package podcontrol.
const (
	// ReasonJobComplete means that the pods on all desired nodes have ended.
	ReasonJobComplete = "JobComplete"
	// ReasonJobFailed means that a pod has failed, and the policy is FailFast.
	ReasonJobFailed = "JobFailed"
	// ReasonDeadlineExceeded means that the job was not complete at its deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonFailedPod means that more pods have failed.
	ReasonFailedPod = "FailedPod"
	// ReasonPaused means that no more pods are created.
	ReasonPaused = "Paused"
	// ReasonContinue means that a user has resumed the job.
	ReasonContinue = "Continue"
	// ReasonTooManyActivePods means that parallelism was lowered below the number of active pods. No pods are deleted because of that.
	ReasonTooManyActivePods = "TooManyActivePods"
	// ReasonDuplicatePod means that one node had several pods, and the surplus ones were deleted.
	ReasonDuplicatePod = "DuplicatePodCreatedOnSameNode"
	// ReasonInvalidSpec means that the spec is invalid.
	ReasonInvalidSpec = "InvalidSpec"
)

// actionRun is the action of events about the job.
const actionRun = "RunJob"
