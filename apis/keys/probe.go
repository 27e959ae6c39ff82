package keys

// Annotations and finalizer of probes.
const (
	// PodProbes is an annotation on pods that the agent of a virtual node may probe: the probes of the PodProbeMarkers that select the
	// pod. Written by the pod webhook at creation; read by agents of virtual nodes, which write the results as conditions of the pod.
	// Form: a JSON list of {"name","containerName","probe","podConditionType"}, as in a PodProbeMarker.
	PodProbes = "kruise.io/podprobe"

	// PodProbeMarkers is an annotation on the same pods: the PodProbeMarkers whose probes the other has. Written by the pod webhook at
	// creation; read by the controllers of probes for pods on virtual nodes. Form: names separated by commas.
	PodProbeMarkers = "kruise.io/podprobemarker-list"

	// NodePodProbeCleanup is a finalizer of PodProbeMarkers, in OpenKruise. Never written; removed from one that is being deleted, whose
	// probes are removed from nodes without it.
	NodePodProbeCleanup = "kruise.io/node-pod-probe-cleanup"
)
