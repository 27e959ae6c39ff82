package keys

// Labels, finalizers and annotations of ContainerRecreateRequests.
const (
	// RecreatePodUID is a label on ContainerRecreateRequests with the UID of the pod. It is set by the webhook of the kind at creation and
	// never changed. It is read by the controller of the kind and by users' selectors.
	RecreatePodUID = "crr.apps.kruise.io/pod-uid"

	// RecreateNode is a label on ContainerRecreateRequests with the node of the pod. It is set by the webhook of the kind at creation and
	// never changed. It is read by the node daemon of that node, and by the policy that restricts the daemon to its own node.
	RecreateNode = "crr.apps.kruise.io/node-name"

	// RecreateActive is a label on ContainerRecreateRequests that are not complete. It is set by the webhook of the kind at creation and
	// removed by its controller. It is read by the node daemon, which doesn't see requests without it. Format: "true".
	RecreateActive = "crr.apps.kruise.io/active"

	// RecreateUnready is a finalizer on ContainerRecreateRequests that make their pod not ready. It is removed when that is undone. In
	// v1alpha1 it is also an annotation, with the time since when the pod is not ready, in RFC 3339. It is set and read by the controller of
	// the kind and by conversion.
	RecreateUnready = "crr.apps.kruise.io/unready-acquired"

	// RecreateStatuses is an annotation on ContainerRecreateRequests in v1alpha1 with the JSON of status.containerStatusSnapshot of v1beta1.
	// It is set and read by conversion and by agents of virtual nodes.
	RecreateStatuses = "crr.apps.kruise.io/sync-container-statuses"

	// RecreateRequester is an annotation on ContainerRecreateRequests with the user who created the request. It is set by the webhook of the
	// kind at creation and never changed. It is read by the controller of the kind and the node daemon, for events.
	RecreateRequester = "fleet.kruise.io/requested-by"

	// RecreateReason is an annotation on ContainerRecreateRequests with the reason for the restart, for people. It is set by users and read by
	// the controller of the kind and the node daemon, for events.
	RecreateReason = "fleet.kruise.io/reason"

	// RecreateContainerID is an annotation on ContainerRecreateRequests for a single container with the ID that the container must have. It is
	// set by the creator of the request and read by the webhook of the kind, which rejects the request if the container was restarted in the
	// meantime. Format: as in the pod status, such as "containerd://1f2e".
	RecreateContainerID = "fleet.kruise.io/container-id"

	// RecreateLiveness is a label on a ContainerRecreateRequest for a container whose liveness probe failed, with the name of the container.
	// It is set and read by the controller of enhanced liveness probes, to tell how often the container was restarted.
	RecreateLiveness = "fleet.kruise.io/liveness-probe-of"
)
