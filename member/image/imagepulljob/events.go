package imagepulljob

// kind is the kind's name.
const kind = "ImagePullJob"

// Reasons of events.
const (
	// ReasonCompleted: each selected node has succeeded or failed.
	ReasonCompleted = "Completed"
	// ReasonDeadlineExceeded: not all nodes were done at the deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonInvalid: the spec can't be read.
	ReasonInvalid = "Invalid"
	// ReasonNoPlace: NodeImages have no place for another image of the namespace. Also a reason of the condition Reconciling.
	ReasonNoPlace = "NoPlaceInNodeImage"
	// ReasonPullSecret: a Secret that the job names can't be used. Source: a kubelet.
	ReasonPullSecret = "FailedToRetrieveImagePullSecret"
)

// notReadable is what to do about a Secret that the manager may not read.
const notReadable = "list its name in imagePullJob.secrets of the chart"

// actionPull is the action of events.
const actionPull = "PullImage"

// Reasons of the condition Stalled.
const (
	// reasonFailedNodes: nodes could not pull the image, or not until the deadline.
	reasonFailedNodes = "NodesFailed"
	// reasonAbsentNodes: the selector names nodes that don't exist.
	reasonAbsentNodes = "NodesAbsent"
)
