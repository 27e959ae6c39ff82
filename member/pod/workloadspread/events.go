package workloadspread

// Reasons of events and conditions.
const (
	// reasonSpreading: new pods are assigned to subsets.
	reasonSpreading = "Spreading"
	// reasonNotAllowed: the target's kind is not allowed.
	reasonNotAllowed = "TargetNotAllowed"
	// reasonTargetTaken: an older WorkloadSpread has the same target.
	reasonTargetTaken = "TargetTaken"
	// reasonTargetDenied: the manager may not read the target.
	reasonTargetDenied = "TargetDenied"
	// reasonTargetGone: the workload does not exist, or is being deleted.
	reasonTargetGone = "TargetGone"
	// reasonReplicasUnknown: percentages can't be computed.
	reasonReplicasUnknown = "ReplicasUnknown"
	// reasonNotSent: pods in the namespace are not sent to the pod webhook.
	reasonNotSent = "PodsNotSent"
	// reasonCreatePodFailed: admitted pods were never created.
	reasonCreatePodFailed = "CreatePodFailed"
	// reasonPatchFailed: the deletion cost or the subset of a pod could not be written.
	reasonPatchFailed = "PatchPodDeletionCostFailed"
	// reasonUnschedulable: pods in the subset could not be scheduled.
	reasonUnschedulable = "PodUnschedulable"
	// reasonSufficient: as far as is known, pods in the subset can be scheduled.
	reasonSufficient = "Sufficient"
	// reasonRecovered: a subset gets new pods again.
	reasonRecovered = "RecoverSchedulable"
)

// Actions of events.
const (
	actionCount    = "Count"
	actionPatch    = "Patch"
	actionSchedule = "Reschedule"
)
