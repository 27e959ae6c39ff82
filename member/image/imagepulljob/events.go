package imagepulljob

// kind is the kind's name.
const kind = "ImagePullJob"

// Reasons of events.
const (
	// reasonCompleted means that each selected node has succeeded or failed.
	reasonCompleted = "Completed"
	// reasonDeadlineExceeded means that not all nodes were done at the deadline.
	reasonDeadlineExceeded = "DeadlineExceeded"
	// reasonInvalid means that the spec is invalid.
	reasonInvalid = "Invalid"
	// reasonNoPlace means that NodeImages have no space for another image of the namespace. It is also a reason of the condition Reconciling.
	reasonNoPlace = "NoPlaceInNodeImage"
	// reasonPullSecret means that a Secret that the job references can't be used. Source: kubelet.
	reasonPullSecret = "FailedToRetrieveImagePullSecret"
)

// notReadable says what to do about a Secret that the manager may not read.
const notReadable = "add its name to imagePullJob.secrets of the chart"

// actionPull is the action of events.
const actionPull = "PullImage"

// Reasons of the condition Stalled.
const (
	// reasonFailedNodes means that nodes could not pull the image, or not before the deadline.
	reasonFailedNodes = "NodesFailed"
	// reasonAbsentNodes means that the selector names nodes that don't exist.
	reasonAbsentNodes = "NodesAbsent"
)
