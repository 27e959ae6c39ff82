package cloneset

// gates are the feature gates of CloneSet (see package feature) and a setting that a flag applies to all CloneSets. In the zero value all of
// them are off.
type gates struct {
	// ShortHash labels new pods with the hash of their revision instead of its name.
	ShortHash bool
	// PartitionRollback rolls updated pods back when the partition is raised.
	PartitionRollback bool
	// PreparingUpdateAsUpdate counts pods held by an inPlaceUpdate hook as updated when pods are scaled.
	PreparingUpdateAsUpdate bool
	// RecreateOnPVCChange re-creates the pods that an update changes if volumeClaimTemplates have changed too.
	RecreateOnPVCChange bool
	// ExcludePreparingDelete sets scaleStrategy.excludePreparingDelete for all CloneSets.
	ExcludePreparingDelete bool
}
