package podprobemarker

import (
	"slices"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/podprobe"
)

// planned is the next write.
type planned struct {
	// release: the finalizer of OpenKruise is removed.
	release bool
	// status is the new one.
	status appsv1alpha1.PodProbeMarkerStatus
}

// plan is a pure function of what was observed.
func plan(o observed) planned {
	if o.marker.DeletionTimestamp != nil {
		return planned{release: slices.Contains(o.marker.Finalizers, keys.NodePodProbeCleanup), status: o.marker.Status}
	}
	p := planned{status: appsv1alpha1.PodProbeMarkerStatus{ObservedGeneration: o.marker.Generation}}
	for _, pod := range o.pods {
		if podprobe.Due(pod) {
			p.status.MatchedPods++
		}
	}
	return p
}
