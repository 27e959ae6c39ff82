package nodepodprobe

// reasonLeftOut is the reason of an event on a PodProbeMarker, or on a pod with liveness probes: some of its probes don't run on a node,
// because they would take too much space.
const reasonLeftOut = "ProbesLeftOut"

// actionProbe is the action of events.
const actionProbe = "Probe"
