package containerrecreaterequest

// kind is the kind's name.
const kind = "ContainerRecreateRequest"

// Reasons of events.
const (
	// ReasonUnready: the pod is not ready any more, before its containers are stopped. On the pod.
	ReasonUnready = "RecreateUnready"
	// ReasonReady: the pod may be ready again. On the pod.
	ReasonReady = "RecreateReady"
	// ReasonPodGone: the pod is gone, or ends, before all was done.
	ReasonPodGone = "PodGone"
	// ReasonDeadlineExceeded: not all was done at the deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonNoDaemon: no node daemon has answered.
	ReasonNoDaemon = "NoDaemon"
)

// actionRecreate is the action of events.
const actionRecreate = "RecreateContainers"
