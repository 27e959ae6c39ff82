package cloneset

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-io/flotilla/pkg/revision"
)

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

// label is how pods name a revision: in full, or by its hash alone where the gate says so or the full name is too long for
// a label. Both are the same to revision.Same, so no pod is written when the gate changes.
func (g Gates) label(name string) string {
	if g.ShortHash || len(name) > validation.LabelValueMaxLength {
		return revision.Short(name)
	}
	return name
}
