package imagepulljob

// kind is the kind's name.
const kind = "ImagePullJob"

// Reasons of steps and events.
const (
	// ReasonSelected: the node is selected, and there is room for it.
	ReasonSelected = "Selected"
	// ReasonChanged: the spec of the job has changed.
	ReasonChanged = "Changed"
	// ReasonRetried: the limits of a pull that failed have changed.
	ReasonRetried = "Retried"
	// ReasonNotSelected: the node is not selected any more, or for another image.
	ReasonNotSelected = "NotSelected"
	// ReasonComplete: the job is complete, and the node is not done.
	ReasonComplete = "Complete"
	// ReasonDeleted: the job is being deleted.
	ReasonDeleted = "Deleted"
	// ReasonCompleted: each selected node has succeeded or failed.
	ReasonCompleted = "Completed"
	// ReasonDeadlineExceeded: not all nodes were done at the deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonInvalid: the spec can't be read.
	ReasonInvalid = "Invalid"
)

// actionPull is the action of events.
const actionPull = "PullImage"
