// Package probedpod writes the results of probes to pods: as conditions, and as labels and annotations according to markerPolicy.
//
//	observe.go  reads the pod, the PodProbeMarkers that select it, and the results of its node
//	plan.go     computes what the pod should have
//	apply.go    writes conditions, then metadata, separately
//
// A pod gets what the latest results say, whatever it had before. What no PodProbeMarker asks for any longer stays. If two PodProbeMarkers
// want the same condition, label or annotation, they don't alternate: the older one wins.
//
// Pods on virtual nodes have no NodePodProbe. The node's agent writes their conditions (gate EnablePodProbeMarkerOnServerless), and labels
// and annotations follow from those.
package probedpod
