package statefulset

import appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"

// Names of the feature gates, as OpenKruise has them.
const (
	gateStartOrdinal = "StatefulSetStartOrdinal"
	gateResizePVCs   = "StatefulSetAutoResizePVCGate"
	gateDeletePVCs   = "StatefulSetAutoDeletePVC"
)

// Gates are the feature gates of StatefulSet, see package feature. The zero value has all of them off.
type Gates struct {
	// StartOrdinal numbers pods from spec.ordinals.start on.
	StartOrdinal bool
	// ResizePVCs resizes PVCs to the size of their templates, by spec.volumeClaimUpdateStrategy.
	ResizePVCs bool
	// DeletePVCs deletes PVCs with their pod or their set, by spec.persistentVolumeClaimRetentionPolicy.
	DeletePVCs bool
}

// start returns the first ordinal.
func (g Gates) start(spec *appsv1beta1.StatefulSetSpec) int64 {
	if !g.StartOrdinal || spec.Ordinals == nil {
		return 0
	}
	return int64(spec.Ordinals.Start)
}
