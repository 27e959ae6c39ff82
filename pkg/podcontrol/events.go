package podcontrol

import "github.com/flotilla-io/flotilla/pkg/event"

// Reasons of events.
const (
	// ReasonSuccessfulCreate: pods were created.
	ReasonSuccessfulCreate = "SuccessfulCreate"
	// ReasonFailedCreate: a pod, a claim of it or a revision could not be created.
	ReasonFailedCreate = "FailedCreate"
	// ReasonScaleUpLimited: scaleStrategy.maxUnavailable held pods back that are to be created.
	ReasonScaleUpLimited = "ScaleUpLimited"
	// ReasonSuccessfulDelete: pods were deleted because they are too many or somebody named them.
	ReasonSuccessfulDelete = "SuccessfulDelete"
	// ReasonFailedDelete: a pod or a claim could not be deleted.
	ReasonFailedDelete = "FailedDelete"
	// ReasonSuccessfulUpdatePodInPlace: the new revision was written into pods.
	ReasonSuccessfulUpdatePodInPlace = "SuccessfulUpdatePodInPlace"
	// ReasonFailedUpdatePodInPlace: a pod could not be written.
	ReasonFailedUpdatePodInPlace = "FailedUpdatePodInPlace"
	// ReasonSuccessfulUpdatePodReCreate: old pods were deleted, to be replaced by new ones.
	ReasonSuccessfulUpdatePodReCreate = "SuccessfulUpdatePodReCreate"
	// ReasonFailedUpdatePodReCreate: an old pod could not be deleted.
	ReasonFailedUpdatePodReCreate = "FailedUpdatePodReCreate"
	// ReasonFailedUpdate: pods can't be updated at all or stand still, or the owner of a claim could not be changed.
	ReasonFailedUpdate = "FailedUpdate"
	// ReasonFailedScale: pods wait for too long to be deleted.
	ReasonFailedScale = "FailedScale"
	// ReasonSelectorOverlap: the selector selects pods of others.
	ReasonSelectorOverlap = "SelectorOverlap"
	// ReasonSuccessfulAdopt: pods or revisions that a former workload has left were taken over.
	ReasonSuccessfulAdopt = "SuccessfulAdopt"
)

// Actions of events.
const (
	ActionScaleOut = "ScaleOut"
	ActionScaleIn  = "ScaleIn"
	ActionUpdate   = "Update"
	ActionObserve  = "Observe"
)

func created(names []string) event.Event {
	return event.Normal(ReasonSuccessfulCreate, ActionScaleOut, "created %d pods: %s", len(names), event.Names(names))
}

func failedCreate(err error) event.Event {
	return event.Warning(ReasonFailedCreate, ActionScaleOut, "%v", err)
}

func scaleUpLimited(why string) event.Event {
	return event.Warning(ReasonScaleUpLimited, ActionScaleOut, "%s", why)
}

func deleted(names []string) event.Event {
	return event.Normal(ReasonSuccessfulDelete, ActionScaleIn, "deleted %d pods: %s", len(names), event.Names(names))
}

func failedDelete(err error) event.Event {
	return event.Warning(ReasonFailedDelete, ActionScaleIn, "%v", err)
}

func updatedInPlace(revision string, names []string) event.Event {
	return event.Normal(ReasonSuccessfulUpdatePodInPlace, ActionUpdate, "updated %d pods in place to %s: %s",
		len(names), revision, event.Names(names))
}

func failedUpdateInPlace(err error) event.Event {
	return event.Warning(ReasonFailedUpdatePodInPlace, ActionUpdate, "%v", err)
}

func recreated(revision string, names []string) event.Event {
	return event.Normal(ReasonSuccessfulUpdatePodReCreate, ActionUpdate, "deleted %d pods, to be made anew at %s: %s",
		len(names), revision, event.Names(names))
}

func failedRecreate(err error) event.Event {
	return event.Warning(ReasonFailedUpdatePodReCreate, ActionUpdate, "%v", err)
}

// FailedScale tells of pods that wait for too long to be made or deleted.
func FailedScale(why string) event.Event {
	return event.Warning(ReasonFailedScale, ActionScaleIn, "%s", why)
}

// FailedUpdate tells of pods that can't be updated.
func FailedUpdate(why string) event.Event {
	return event.Warning(ReasonFailedUpdate, ActionUpdate, "%s", why)
}

// Overlap tells of pods of others that the selector selects.
func Overlap(why string) event.Event {
	return event.Warning(ReasonSelectorOverlap, ActionObserve, "%s", why)
}

// Adopted tells of what was taken over; what is a word for it in the plural.
func Adopted(what string, names []string) event.Event {
	return event.Normal(ReasonSuccessfulAdopt, ActionObserve, "took over %d %s of nobody: %s", len(names), what, event.Names(names))
}
