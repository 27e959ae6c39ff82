package containerrecreaterequest

// kind is the kind of the objects that this package reconciles.
const kind = "ContainerRecreateRequest"

// Reasons of events.
const (
	// reasonUnready: the pod was made unready, before its containers are stopped. On the pod.
	reasonUnready = "RecreateUnready"
	// reasonReady: the pod may be ready again. On the pod.
	reasonReady = "RecreateReady"
	// reasonPodGone: the pod is gone, or is terminating, before the request was done.
	reasonPodGone = "PodGone"
	// reasonDeadlineExceeded: the request was not done at its deadline.
	reasonDeadlineExceeded = "DeadlineExceeded"
	// reasonNoDaemon: no node daemon answered.
	reasonNoDaemon = "NoDaemon"
)

// actionRecreate is the action of events.
const actionRecreate = "RecreateContainers"
