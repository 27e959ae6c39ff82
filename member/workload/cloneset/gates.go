package cloneset

import "github.com/flotilla-io/flotilla/pkg/inplace"

// Gates are the feature gates that a CloneSet is planned by, see package feature, what a flag sets for all CloneSets, and
// what the apiserver lacks.
// The zero value has all of them off.
type Gates struct {
	// ShortHash makes new pods name their revision by its hash alone.
	ShortHash bool
	// PartitionRollback brings updated pods back when the partition is raised.
	PartitionRollback bool
	// PreparingUpdateAsUpdate counts pods that an inPlaceUpdate hook holds as updated when pods are scaled.
	PreparingUpdateAsUpdate bool
	// VerticalScaling updates cpu and memory in place.
	VerticalScaling bool
	// NoResize: the apiserver has no pods/resize, so VerticalScaling comes to nothing, and the reason is told.
	NoResize bool
	// EnvFromMetadata updates metadata that containers read by env in place.
	EnvFromMetadata bool
	// RecreateOnClaimChange makes pods anew for an update if the claim templates changed with it.
	RecreateOnClaimChange bool
	// ExcludePreparingDelete is scaleStrategy.excludePreparingDelete of all CloneSets, whatever they say.
	ExcludePreparingDelete bool
}

// edits are the changes that pods may take over.
func (g Gates) edits() inplace.Options {
	return inplace.Options{Resources: g.VerticalScaling, NoResize: g.NoResize, Env: g.EnvFromMetadata}
}
