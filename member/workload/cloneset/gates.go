package cloneset

// Gates are the feature gates of CloneSet, see package feature, and what a flag sets for all CloneSets. The zero value has all of
// them off.
type Gates struct {
	// ShortHash labels new pods with the hash of their revision instead of its name.
	ShortHash bool
	// PartitionRollback rolls updated pods back when the partition is raised.
	PartitionRollback bool
	// PreparingUpdateAsUpdate counts pods that an inPlaceUpdate hook holds as updated when pods are scaled.
	PreparingUpdateAsUpdate bool
	// RecreateOnPVCChange re-creates the pods that an update changes if volumeClaimTemplates have changed too.
	RecreateOnPVCChange bool
	// ExcludePreparingDelete sets scaleStrategy.excludePreparingDelete for all CloneSets.
	ExcludePreparingDelete bool
}
