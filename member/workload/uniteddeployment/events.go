package uniteddeployment

import (
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// Reasons of events. They match the reasons of OpenKruise where it has one, including the blank in one of them.
const (
	// reasonSuccessfulUpdateSubset means that workloads of subsets were created, changed or deleted.
	reasonSuccessfulUpdateSubset = "SuccessfulUpdateSubset"
	// reasonFailedUpdateSubset means that a workload of a subset could not be created, changed or deleted.
	reasonFailedUpdateSubset = "FailedUpdateSubset"
	// reasonFailedDeleteDuplicatedSubsets means that a second workload of a subset could not be deleted.
	reasonFailedDeleteDuplicatedSubsets = "FailedDeleteDuplicatedSubsets"
	// reasonFailedRevisionProvision means that the revision of the template could not be written.
	reasonFailedRevisionProvision = "FailedRevisionProvision"
	// reasonFailedSpecifySubsetReplicas means that the numbers of the subsets do not add up to the replicas, so they stay as they are.
	reasonFailedSpecifySubsetReplicas = "Failed SpecifySubsetReplicas"
	// ReasonNotServed means that a field has a value that is not supported yet.
	ReasonNotServed = reasonNotServed
	// reasonSubsetUnschedulable and reasonSubsetSchedulable mean that, with Adaptive, a subset has closed because its pods could not be
	// scheduled, or is open again.
	reasonSubsetUnschedulable = "SubsetUnschedulable"
	reasonSubsetSchedulable   = "SubsetSchedulable"
	// reasonDeletedStuckPods means that old pods that blocked the update of a StatefulSet were deleted.
	reasonDeletedStuckPods = "DeletedStuckPods"
)

// Actions of events.
const (
	actionProvision = "Provision"
	actionDivide    = "Divide"
)

func wroteEvent(what string, names []string) event.Event {
	return event.Normal(reasonSuccessfulUpdateSubset, actionProvision, "%s %d workload(s): %s", what, len(names), event.Names(names))
}

func failedEvent(err error) event.Event {
	return event.Warning(reasonFailedUpdateSubset, actionProvision, "%v", err)
}

func failedDuplicateEvent(err error) event.Event {
	return event.Warning(reasonFailedDeleteDuplicatedSubsets, actionProvision, "%v", err)
}

func failedRevisionEvent(err error) event.Event {
	return event.Warning(reasonFailedRevisionProvision, actionProvision, "%v", err)
}

func ineffectiveEvent(why string) event.Event {
	return event.Warning(reasonFailedSpecifySubsetReplicas, actionDivide, "%s", why)
}

func notServedEvent(why string) event.Event {
	return event.Warning(ReasonNotServed, actionProvision, "%s", why)
}

func scheduleEvent(subset string, c *appsv1beta1.SubsetCondition) event.Event {
	if c.Status == corev1.ConditionFalse {
		return event.Warning(reasonSubsetUnschedulable, actionDivide, "subset %s: %s", subset, c.Message)
	}
	return event.Normal(reasonSubsetSchedulable, actionDivide, "subset %s: %s", subset, c.Message)
}

func stuckEvent(names []string) event.Event {
	return event.Normal(reasonDeletedStuckPods, actionProvision, "deleted %d old pod(s) that blocked the update: %s", len(names), event.Names(names))
}
