package broadcastjob

// Reasons of events that only a BroadcastJob has; the others are those of package podcontrol.
const (
	// ReasonJobComplete: the pods of all desired nodes have ended.
	ReasonJobComplete = "JobComplete"
	// ReasonJobFailed: a pod has failed, and the policy is FailFast.
	ReasonJobFailed = "JobFailed"
	// ReasonDeadlineExceeded: the job was not complete at its deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonFailedPod: more pods have failed.
	ReasonFailedPod = "FailedPod"
	// ReasonPaused: no pods are created any more.
	ReasonPaused = "Paused"
	// ReasonContinue: a user has resumed the job.
	ReasonContinue = "Continue"
	// ReasonTooManyActivePods: parallelism was lowered below what runs, and nothing is deleted for that.
	ReasonTooManyActivePods = "TooManyActivePods"
	// ReasonDuplicatePod: several pods were for one node, and the surplus ones were deleted.
	ReasonDuplicatePod = "DuplicatePodCreatedOnSameNode"
	// ReasonInvalidSpec: the spec can't be read.
	ReasonInvalidSpec = "InvalidSpec"
)

// actionRun is the action of events about the job.
const actionRun = "RunJob"
