package containerrecreaterequest

// kind is the kind of the objects that this package reconciles.
const kind = "ContainerRecreateRequest"

// Reasons of events.
const (
	// ReasonUnready: the pod was made unready, before its containers are stopped. On the pod.
	ReasonUnready = "RecreateUnready"
	// ReasonReady: the pod may be ready again. On the pod.
	ReasonReady = "RecreateReady"
	// ReasonPodGone: the pod is gone, or is terminating, before the request was done.
	ReasonPodGone = "PodGone"
	// ReasonDeadlineExceeded: the request was not done at its deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonNoDaemon: no node daemon answered.
	ReasonNoDaemon = "NoDaemon"
)

// actionRecreate is the action of events.
const actionRecreate = "RecreateContainers"
