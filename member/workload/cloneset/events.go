package cloneset

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
)

// Actions of events.
const (
	actionScaleOut = "ScaleOut"
	actionScaleIn  = "ScaleIn"
	actionUpdate   = "Update"
	actionObserve  = "Observe"
)

func createdEvent(names []string) event.Event {
	return event.Normal(ReasonSuccessfulCreate, actionScaleOut, "created %d pods: %s", len(names), event.Names(names))
}

func failedCreateEvent(err error) event.Event {
	return event.Warning(ReasonFailedCreate, actionScaleOut, "%v", err)
}

func scaleUpLimitedEvent(why string) event.Event {
	return event.Warning(ReasonScaleUpLimited, actionScaleOut, "%s", why)
}

func deletedEvent(names []string) event.Event {
	return event.Normal(ReasonSuccessfulDelete, actionScaleIn, "deleted %d pods: %s", len(names), event.Names(names))
}

func failedDeleteEvent(err error) event.Event {
	return event.Warning(ReasonFailedDelete, actionScaleIn, "%v", err)
}

func updatedInPlaceEvent(revision string, names []string) event.Event {
	return event.Normal(ReasonSuccessfulUpdatePodInPlace, actionUpdate, "updated %d pods in place to %s: %s",
		len(names), revision, event.Names(names))
}

func failedUpdateInPlaceEvent(err error) event.Event {
	return event.Warning(ReasonFailedUpdatePodInPlace, actionUpdate, "%v", err)
}

func recreatedEvent(revision string, names []string) event.Event {
	return event.Normal(ReasonSuccessfulUpdatePodReCreate, actionUpdate, "deleted %d pods, to be made anew at %s: %s",
		len(names), revision, event.Names(names))
}

func failedRecreateEvent(err error) event.Event {
	return event.Warning(ReasonFailedUpdatePodReCreate, actionUpdate, "%v", err)
}

func failedScaleEvent(why string) event.Event {
	return event.Warning(ReasonFailedScale, actionScaleIn, "%s", why)
}

func overlapEvent(why string) event.Event {
	return event.Warning(ReasonSelectorOverlap, actionObserve, "%s", why)
}

func failedUpdateEvent(why string) event.Event {
	return event.Warning(ReasonFailedUpdate, actionUpdate, "%s", why)
}
