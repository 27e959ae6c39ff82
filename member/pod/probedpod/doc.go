// Package probedpod writes the results of probes to pods: as a condition, and as labels and annotations by markerPolicy.
//
//	observe.go  reads the pod, the PodProbeMarkers that select it, and the results of its node
//	plan.go     what the pod is to have
//	apply.go    writes conditions, then metadata, each for itself
//
// A pod has what the last results say, whatever it had before; what no PodProbeMarker asks for any more stays. Two PodProbeMarkers that want
// the same condition, label or annotation don't alternate: the older one gets it.
//
// Pods on virtual nodes have no NodePodProbe. Their node's agent writes the conditions (gate EnablePodProbeMarkerOnServerless), and the
// labels and annotations follow those.
package probedpod
