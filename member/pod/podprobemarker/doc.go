// Package podprobemarker counts the pods of PodProbeMarkers, validates PodProbeMarkers, and tells the agents of virtual nodes what to probe.
//
//	observe.go  reads the PodProbeMarker and the pods that it selects
//	plan.go     computes the status
//	webhook.go  rejects what can't be probed
//	step.go     adds the probes to new pods in an annotation (gate EnablePodProbeMarkerOnServerless)
//
// The probes for node daemons are in NodePodProbes (member/pod/nodepodprobe), and member/pod/probedpod writes the results to pods. Both read
// existing PodProbeMarkers, so a deleted one needs no finalizer. OpenKruise's finalizer is removed.
package podprobemarker
