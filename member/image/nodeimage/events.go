package nodeimage

// kind is the kind's name.
const kind = "NodeImage"

const (
	// reasonPullImageFailed means that a node did not answer in time.
	reasonPullImageFailed = "PullImageFailed"

	actionPull = "PullImage"
)

// messageNoAnswer and messageTooLong say why a pull that a node does not end has failed. The first is the same as in OpenKruise.
const (
	messageNoAnswer = "node has not responded for a long time"
	messageTooLong  = "node did not report the end of the pull within activeDeadlineSeconds"
)
