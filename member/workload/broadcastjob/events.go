package broadcastjob

// Reasons of events that only a BroadcastJob has; the others are in package podcontrol.
const (
	// reasonJobComplete means that the pods on all desired nodes have ended.
	reasonJobComplete = "JobComplete"
	// reasonJobFailed means that a pod has failed, and the policy is FailFast.
	reasonJobFailed = "JobFailed"
	// reasonDeadlineExceeded means that the job was not complete at its deadline.
	reasonDeadlineExceeded = "DeadlineExceeded"
	// reasonFailedPod means that more pods have failed.
	reasonFailedPod = "FailedPod"
	// reasonPaused means that no more pods are created.
	reasonPaused = "Paused"
	// reasonContinue means that a user has resumed the job.
	reasonContinue = "Continue"
	// reasonTooManyActivePods means that parallelism was lowered below the number of active pods. No pods are deleted because of that.
	reasonTooManyActivePods = "TooManyActivePods"
	// reasonDuplicatePod means that one node had several pods, and the surplus ones were deleted.
	reasonDuplicatePod = "DuplicatePodCreatedOnSameNode"
	// reasonInvalidSpec means that the spec is invalid.
	reasonInvalidSpec = "InvalidSpec"
)

// actionRun is the action of events about the job.
const actionRun = "RunJob"
