package workloadspread

// Reasons of events and conditions.
const (
	// ReasonSpreading: new pods are assigned to subsets.
	ReasonSpreading = "Spreading"
	// ReasonNotAllowed: the target's kind is not allowed.
	ReasonNotAllowed = "TargetNotAllowed"
	// ReasonTargetTaken: an older WorkloadSpread has the same target.
	ReasonTargetTaken = "TargetTaken"
	// ReasonTargetDenied: the manager may not read the target.
	ReasonTargetDenied = "TargetDenied"
	// ReasonTargetGone: the workload does not exist, or is being deleted.
	ReasonTargetGone = "TargetGone"
	// ReasonReplicasUnknown: percentages can't be computed.
	ReasonReplicasUnknown = "ReplicasUnknown"
	// ReasonNotSent: pods in the namespace are not sent to the pod webhook.
	ReasonNotSent = "PodsNotSent"
	// ReasonCreatePodFailed: admitted pods were never created.
	ReasonCreatePodFailed = "CreatePodFailed"
	// ReasonPatchFailed: the deletion cost or the subset of a pod could not be written.
	ReasonPatchFailed = "PatchPodDeletionCostFailed"
	// ReasonUnschedulable: pods in the subset could not be scheduled.
	ReasonUnschedulable = "PodUnschedulable"
	// ReasonSufficient: as far as is known, pods in the subset can be scheduled.
	ReasonSufficient = "Sufficient"
	// ReasonRecovered: a subset gets new pods again.
	ReasonRecovered = "RecoverSchedulable"
)

// Actions of events.
const (
	actionCount    = "Count"
	actionPatch    = "Patch"
	actionSchedule = "Reschedule"
)
