package cloneset

// Gates are the feature gates that a CloneSet is planned by, see package feature. The zero value has all of them off.
type Gates struct {
	// ShortHash makes new pods name their revision by its hash alone.
	ShortHash bool
	// PartitionRollback brings updated pods back when the partition is raised.
	PartitionRollback bool
	// PreparingUpdateAsUpdate counts pods that an inPlaceUpdate hook holds as updated when pods are scaled.
	PreparingUpdateAsUpdate bool
	// VerticalScaling updates cpu and memory in place.
	VerticalScaling bool
	// EnvFromMetadata updates metadata that containers read by env in place.
	EnvFromMetadata bool
	// RecreateOnClaimChange makes pods anew for an update if the claim templates changed with it.
	RecreateOnClaimChange bool
}
