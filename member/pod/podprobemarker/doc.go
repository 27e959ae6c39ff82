// Package podprobemarker counts the pods of PodProbeMarkers, validates PodProbeMarkers, and tells the agents of virtual nodes what to probe.
//
//	observe.go  reads the PodProbeMarker and the pods that it selects
//	plan.go     what the status says
//	webhook.go  refuses what can't be probed
//	step.go     gives new pods the probes in an annotation (gate EnablePodProbeMarkerOnServerless)
//
// What node daemons probe is in NodePodProbes (member/pod/nodepodprobe), and the results get to pods by member/pod/probedpod. Both go by
// PodProbeMarkers as they are, so that one that is deleted needs no finalizer: that of OpenKruise is removed.
package podprobemarker
