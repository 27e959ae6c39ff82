// Package nodepodprobe tells node daemons what to probe. It writes the spec of each node's NodePodProbe.
//
//	observe.go  reads the node, its pods, their PodProbeMarkers, and the NodePodProbe
//	            (liveness probes are in an annotation of the pod)
//	plan.go     computes the NodePodProbe's spec
//	apply.go    writes it as a whole
//
// It is the only writer of the spec, so other writers can't cause conflicts, however many pods a PodProbeMarker selects. A change of the pods
// on a node takes one write. A NodePodProbe is created with the first probe of a node, and deleted with the node. One without probes stays.
//
// When a probe is dropped, its result is dropped too, and the probe starts over if it comes back. So before probes are dropped because the
// cache lacks an object, the apiserver is asked for that object.
package nodepodprobe
