package imagepull

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// Find returns the entry for a reference in a NodeImage, or nil. The result points into the NodeImage.
func Find(n *appsv1beta1.NodeImage, ref Reference) *appsv1beta1.ImageTagSpec {
	tags := n.Spec.Images[ref.Name].Tags
	for i := range tags { // No copies, because this is called for each node.
		if tags[i].Tag == ref.Tag {
			return &tags[i]
		}
	}
	return nil
}

// State returns the last known state of a reference, or nil. It may belong to an earlier version of the entry.
func State(n *appsv1beta1.NodeImage, ref Reference) *appsv1beta1.ImageTagStatus {
	tags := n.Status.ImageStatuses[ref.Name].Tags
	for i := range tags {
		if tags[i].Tag == ref.Tag {
			return &tags[i]
		}
	}
	return nil
}

// Phase returns how far the pull of an entry has progressed: Waiting if the node has not reported the entry's version.
func Phase(n *appsv1beta1.NodeImage, ref Reference, entry *appsv1beta1.ImageTagSpec) appsv1beta1.ImagePullPhase {
	s := State(n, ref)
	if s == nil || s.Version != entry.Version || s.Phase == "" {
		return appsv1beta1.ImagePhaseWaiting
	}
	return s.Phase
}

// Done reports whether a pull has ended.
func Done(phase appsv1beta1.ImagePullPhase) bool {
	return phase == appsv1beta1.ImagePhaseSucceeded || phase == appsv1beta1.ImagePhaseFailed
}

// Owns reports whether an ImagePullJob is one of the owners of an entry.
func Owns(entry *appsv1beta1.ImageTagSpec, job types.UID) bool {
	for i := range entry.OwnerReferences {
		if entry.OwnerReferences[i].UID == job {
			return true
		}
	}
	return false
}

// Owners returns the unique UIDs of the ImagePullJobs that own an entry in a NodeImage.
func Owners(n *appsv1beta1.NodeImage) []string {
	var out []string
	for _, image := range n.Spec.Images {
		for i := range image.Tags {
			for _, o := range image.Tags[i].OwnerReferences {
				if o.UID != "" && !slices.Contains(out, string(o.UID)) {
					out = append(out, string(o.UID))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

const (
	// Places is the capacity of a NodeImage, in pairs of an image and an ImagePullJob that wants it: the maximum number of images.
	Places = 256
	// Crowded is the number of such pairs beyond which a namespace may have to wait for a place.
	Crowded = Places / 2
	// MaxSeconds limits, whatever the job says, how long all attempts of a pull may take together, and how long its entry is kept after its end, in
	// seconds: a day.
	MaxSeconds = DefaultTTLSeconds
)

// Room reports whether a namespace that has own of the used places may take another one: only while more places are free than it has. So the
// first may take half of the places, the next a quarter, and nobody takes the last ones.
func Room(places, used, own int) bool { return own < places-used }

// Taken returns how many pairs of an image and an ImagePullJob a NodeImage has, and how many of them belong to jobs in a namespace. An image
// without a job counts as one.
func Taken(n *appsv1beta1.NodeImage, namespace string) (all, own int) {
	for _, image := range n.Spec.Images {
		for i := range image.Tags {
			owners := image.Tags[i].OwnerReferences
			all += max(1, len(owners))
			for j := range owners {
				if owners[j].Namespace == namespace {
					own++
				}
			}
		}
	}
	return all, own
}

// Asked reports whether an owner of an entry has requested its current version.
func Asked(entry *appsv1beta1.ImageTagSpec, owner *appsv1beta1.ImageTagOwner) bool {
	return owner.Version != nil && *owner.Version == entry.Version
}

// Decider returns the namespace of the jobs that requested the current version of an entry; empty if unknown.
func Decider(entry *appsv1beta1.ImageTagSpec) string {
	for i := range entry.OwnerReferences {
		if o := &entry.OwnerReferences[i]; Asked(entry, o) {
			return o.Namespace
		}
	}
	return ""
}

// Count sets the numbers in a status from the entries in a spec. The state of an earlier version doesn't count.
func Count(spec *appsv1beta1.NodeImageSpec, s *appsv1beta1.NodeImageStatus) {
	s.Desired, s.Succeeded, s.Failed, s.Pulling, s.Waiting = 0, 0, 0, 0, 0
	for name, image := range spec.Images {
		for i := range image.Tags {
			s.Desired++
			state := State(&appsv1beta1.NodeImage{Status: *s}, Reference{Name: name, Tag: image.Tags[i].Tag})
			if state == nil || state.Version != image.Tags[i].Version {
				continue
			}
			switch state.Phase {
			case appsv1beta1.ImagePhaseSucceeded:
				s.Succeeded++
			case appsv1beta1.ImagePhaseFailed:
				s.Failed++
			case appsv1beta1.ImagePhasePulling:
				s.Pulling++
			case appsv1beta1.ImagePhaseWaiting:
				s.Waiting++
			}
		}
	}
}

// Absent says for how many nodes in a job's selector.names there is no NodeImage.
func Absent(nodes int) string {
	return fmt.Sprintf("%d node(s) in selector.names do not exist, or have no NodeImage yet", nodes)
}
