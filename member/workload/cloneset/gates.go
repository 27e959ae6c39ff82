package cloneset

// Gates are the feature gates that a CloneSet is planned by, see package feature, and what a flag sets for all CloneSets. The
// zero value has all of them off.
type Gates struct {
	// ShortHash makes new pods name their revision by its hash alone.
	ShortHash bool
	// PartitionRollback brings updated pods back when the partition is raised.
	PartitionRollback bool
	// PreparingUpdateAsUpdate counts pods that an inPlaceUpdate hook holds as updated when pods are scaled.
	PreparingUpdateAsUpdate bool
	// RecreateOnPVCChange re-creates pods for an update if the PVC templates changed with it.
	RecreateOnPVCChange bool
	// ExcludePreparingDelete is scaleStrategy.excludePreparingDelete of all CloneSets, whatever they say.
	ExcludePreparingDelete bool
}
