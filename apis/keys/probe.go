package keys

// Annotations and finalizers of probes.
const (
	// PodProbes is an annotation on pods that the agent of a virtual node may probe. It contains the probes of the PodProbeMarkers that select
	// the pod. It is set by the pod webhook at creation, and read by agents of virtual nodes, which write the results to conditions of the
	// pod. Format: a JSON list of {"name","containerName","probe","podConditionType"}, as in a PodProbeMarker.
	PodProbes = "kruise.io/podprobe"

	// PodProbeMarkers is an annotation on the same pods. It lists the PodProbeMarkers whose probes are in PodProbes. It is set by the pod
	// webhook at creation, and read by the controllers of probes for pods on virtual nodes. Format: a comma-separated list of names.
	PodProbeMarkers = "kruise.io/podprobemarker-list"

	// NodePodProbeCleanup is a finalizer that OpenKruise puts on PodProbeMarkers. We never set it. It is removed from PodProbeMarkers that are
	// being deleted; their probes are removed from nodes without it.
	NodePodProbeCleanup = "kruise.io/node-pod-probe-cleanup"
)
