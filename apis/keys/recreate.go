package keys

// Labels, finalizer and annotations of ContainerRecreateRequests.
const (
	// RecreatePodUID is a label on a ContainerRecreateRequest: the UID of its pod. Written by the kind's webhook at creation, never changed;
	// read by its controller and by users' selectors.
	RecreatePodUID = "crr.apps.kruise.io/pod-uid"

	// RecreateNode is a label on a ContainerRecreateRequest: the node of its pod. Written by the kind's webhook at creation, never changed;
	// read by the node daemon of that node, and by the policy that limits it to its own node.
	RecreateNode = "crr.apps.kruise.io/node-name"

	// RecreateActive is a label on a ContainerRecreateRequest that is not complete. Written by the kind's webhook at creation, removed by its
	// controller; read by the node daemon, which sees no other requests. Form: "true".
	RecreateActive = "crr.apps.kruise.io/active"

	// RecreateUnready is a finalizer of a ContainerRecreateRequest that makes its pod not ready, until that is undone. In v1alpha1 it is an
	// annotation as well: since when, in RFC 3339. Written and read by the kind's controller, and by conversion.
	RecreateUnready = "crr.apps.kruise.io/unready-acquired"

	// RecreateStatuses is an annotation on a ContainerRecreateRequest of v1alpha1: the JSON of status.containerStatusSnapshot of v1beta1.
	// Written and read by conversion, and by agents of virtual nodes.
	RecreateStatuses = "crr.apps.kruise.io/sync-container-statuses"

	// RecreateRequester is an annotation on a ContainerRecreateRequest: the user who made it. Written by the kind's webhook at creation, never
	// changed; read by its controller and the node daemon, for events.
	RecreateRequester = "fleet.kruise.io/requested-by"

	// RecreateReason is an annotation on a ContainerRecreateRequest: why containers are restarted, for people. Written by users; read by its
	// controller and the node daemon, for events.
	RecreateReason = "fleet.kruise.io/reason"

	// RecreateContainerID is an annotation on a ContainerRecreateRequest for one container: the ID that the container must have. Written
	// by who makes the request; read by the kind's webhook, which refuses a request for a container that was started anew meanwhile. Form:
	// as in the pod's status, "containerd://1f2e".
	RecreateContainerID = "fleet.kruise.io/container-id"

	// RecreateLiveness is a label on a ContainerRecreateRequest for a container whose liveness probe has failed: the name of the
	// container. Written by the controller of enhanced liveness probes; read by it to tell how often the container was restarted.
	RecreateLiveness = "fleet.kruise.io/liveness-probe-of"
)
