package podcontrol

import "github.com/flotilla-io/flotilla/pkg/control/event"

// Event reasons.
const (
	// ReasonSuccessfulCreate: pods were created.
	ReasonSuccessfulCreate = "SuccessfulCreate"
	// ReasonFailedCreate: a pod, one of its PVCs or a revision could not be created.
	ReasonFailedCreate = "FailedCreate"
	// ReasonScaleUpLimited: scaleStrategy.maxUnavailable delays the creation of pods.
	ReasonScaleUpLimited = "ScaleUpLimited"
	// ReasonSuccessfulDelete: pods were deleted by a scale-in or because a user requested their deletion.
	ReasonSuccessfulDelete = "SuccessfulDelete"
	// ReasonFailedDelete: a pod or a PVC could not be deleted.
	ReasonFailedDelete = "FailedDelete"
	// ReasonSuccessfulUpdatePodInPlace: the new revision was written into pods.
	ReasonSuccessfulUpdatePodInPlace = "SuccessfulUpdatePodInPlace"
	// ReasonFailedUpdatePodInPlace: a pod could not be patched.
	ReasonFailedUpdatePodInPlace = "FailedUpdatePodInPlace"
	// ReasonSuccessfulUpdatePodReCreate: old pods were deleted, to be replaced by new ones.
	ReasonSuccessfulUpdatePodReCreate = "SuccessfulUpdatePodReCreate"
	// ReasonFailedUpdatePodReCreate: an old pod could not be deleted.
	ReasonFailedUpdatePodReCreate = "FailedUpdatePodReCreate"
	// ReasonFailedUpdate: pods can't be updated or the update is stalled, or the owner of a PVC could not be changed.
	ReasonFailedUpdate = "FailedUpdate"
	// ReasonFailedScale: scaling is stalled.
	ReasonFailedScale = "FailedScale"
	// ReasonSelectorOverlap: the selector matches pods of another owner.
	ReasonSelectorOverlap = "SelectorOverlap"
	// ReasonPVCTerminating: a PVC is being deleted while a pod runs on it.
	ReasonPVCTerminating = "PVCTerminating"
	// ReasonSuccessfulAdopt: orphaned pods or revisions were adopted.
	ReasonSuccessfulAdopt = "SuccessfulAdopt"
)

// Event actions.
const (
	ActionScaleOut = "ScaleOut"
	ActionScaleIn  = "ScaleIn"
	ActionUpdate   = "Update"
	ActionObserve  = "Observe"
)

// FailedScale returns the event for scaling that failed or is stalled.
func FailedScale(why string) event.Event {
	return event.Warning(ReasonFailedScale, ActionScaleIn, "%s", why)
}

// FailedUpdate returns the event for an update that failed or is stalled.
func FailedUpdate(why string) event.Event {
	return event.Warning(ReasonFailedUpdate, ActionUpdate, "%s", why)
}

// Overlap returns the event for a selector that matches pods of another owner.
func Overlap(why string) event.Event {
	return event.Warning(ReasonSelectorOverlap, ActionObserve, "%s", why)
}

// PVCTerminating returns the event for PVCs that are being deleted while pods run on them.
func PVCTerminating(why string) event.Event {
	return event.Warning(ReasonPVCTerminating, ActionObserve, "%s", why)
}

// Adopted returns the event for an adoption; what is a plural noun, such as pods.
func Adopted(what string, names []string) event.Event {
	return event.Normal(ReasonSuccessfulAdopt, ActionObserve, "adopted %d orphaned %s: %s", len(names), what, event.Names(names))
}
