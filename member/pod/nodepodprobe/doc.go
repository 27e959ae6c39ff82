// Package nodepodprobe tells node daemons what to probe: it writes the spec of the NodePodProbe of each node.
//
//	observe.go  reads the node, its pods, their PodProbeMarkers, and the NodePodProbe
//	            (liveness probes are in an annotation of the pod)
//	plan.go     what the NodePodProbe is to say
//	apply.go    writes it as a whole
//
// It is the only writer, so that no write of it is refused because of another, however many pods a PodProbeMarker selects: a node whose
// pods have changed takes one write. A NodePodProbe is created with the first probe of a node, and deleted with the node; one without
// probes stays.
//
// A probe that is dropped has its result dropped too, and begins anew if it comes again. So what the cache does not have any more is looked
// up before its probes are dropped.
package nodepodprobe
