package podprobemarker

import (
	"slices"
	"time"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

// planned is the next write.
type planned struct {
	// release means that OpenKruise's finalizer is removed.
	release bool
	// status is the new status.
	status appsv1alpha1.PodProbeMarkerStatus
}

// plan is a pure function of what was observed.
func plan(o observed, now time.Time) planned {
	if o.marker.DeletionTimestamp != nil {
		return planned{release: slices.Contains(o.marker.Finalizers, keys.NodePodProbeCleanup), status: o.marker.Status}
	}
	p := planned{status: appsv1alpha1.PodProbeMarkerStatus{
		ObservedGeneration: o.marker.Generation,
		// Probe results, and whether a node has space for a probe, are specific to each pod.
		Conditions: report.SetReadiness(o.marker.Status.Conditions, report.Ready("the probes are assigned to the nodes of the pods"), o.marker.Generation, now),
	}}
	for _, pod := range o.pods {
		if podprobe.Due(pod) {
			p.status.MatchedPods++
		}
	}
	return p
}
