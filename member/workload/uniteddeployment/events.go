package uniteddeployment

import (
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// Reasons of events. They match the reasons of OpenKruise where it has one, including the blank in one of them.
const (
	// ReasonSuccessfulUpdateSubset means that workloads of subsets were created, changed or deleted.
	ReasonSuccessfulUpdateSubset = "SuccessfulUpdateSubset"
	// ReasonFailedUpdateSubset means that a workload of a subset could not be created, changed or deleted.
	ReasonFailedUpdateSubset = "FailedUpdateSubset"
	// ReasonFailedDeleteDuplicatedSubsets means that a second workload of a subset could not be deleted.
	ReasonFailedDeleteDuplicatedSubsets = "FailedDeleteDuplicatedSubsets"
	// ReasonFailedRevisionProvision means that the revision of the template could not be written.
	ReasonFailedRevisionProvision = "FailedRevisionProvision"
	// ReasonFailedSpecifySubsetReplicas means that the numbers of the subsets do not add up to the replicas, so they stay as they are.
	ReasonFailedSpecifySubsetReplicas = "Failed SpecifySubsetReplicas"
	// ReasonNotServed means that a field has a value that is not supported yet.
	ReasonNotServed = reasonNotServed
	// ReasonSubsetUnschedulable and ReasonSubsetSchedulable mean that, with Adaptive, a subset has closed because its pods could not be
	// scheduled, or is open again.
	ReasonSubsetUnschedulable = "SubsetUnschedulable"
	ReasonSubsetSchedulable   = "SubsetSchedulable"
	// ReasonDeletedStuckPods means that old pods that blocked the update of a StatefulSet were deleted.
	ReasonDeletedStuckPods = "DeletedStuckPods"
)

// Actions of events.
const (
	actionProvision = "Provision"
	actionDivide    = "Divide"
)

func wroteEvent(what string, names []string) event.Event {
	return event.Normal(ReasonSuccessfulUpdateSubset, actionProvision, "%s %d workload(s): %s", what, len(names), event.Names(names))
}

func failedEvent(err error) event.Event {
	return event.Warning(ReasonFailedUpdateSubset, actionProvision, "%v", err)
}

func failedDuplicateEvent(err error) event.Event {
	return event.Warning(ReasonFailedDeleteDuplicatedSubsets, actionProvision, "%v", err)
}

func failedRevisionEvent(err error) event.Event {
	return event.Warning(ReasonFailedRevisionProvision, actionProvision, "%v", err)
}

func ineffectiveEvent(why string) event.Event {
	return event.Warning(ReasonFailedSpecifySubsetReplicas, actionDivide, "%s", why)
}

func notServedEvent(why string) event.Event {
	return event.Warning(ReasonNotServed, actionProvision, "%s", why)
}

func scheduleEvent(subset string, c *appsv1beta1.SubsetCondition) event.Event {
	if c.Status == corev1.ConditionFalse {
		return event.Warning(ReasonSubsetUnschedulable, actionDivide, "subset %s: %s", subset, c.Message)
	}
	return event.Normal(ReasonSubsetSchedulable, actionDivide, "subset %s: %s", subset, c.Message)
}

func stuckEvent(names []string) event.Event {
	return event.Normal(ReasonDeletedStuckPods, actionProvision, "deleted %d old pod(s) that blocked the update: %s", len(names), event.Names(names))
}
