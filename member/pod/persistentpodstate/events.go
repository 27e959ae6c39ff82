package persistentpodstate

// Reasons of events and of the condition Active.
const (
	// reasonRecording: pods are recorded, and new pods get what was recorded.
	reasonRecording = "Recording"
	// reasonForgotten: pods are no longer remembered.
	reasonForgotten = "PodStatesForgotten"
	// reasonNotAllowed: the target's kind is not allowed.
	reasonNotAllowed = "TargetNotAllowed"
	// reasonTargetTaken: an older PersistentPodState has the same target.
	reasonTargetTaken = "TargetTaken"
	// reasonTargetDenied: the manager may not read the target.
	reasonTargetDenied = "TargetDenied"
	// reasonTargetGone: the workload does not exist, or is being deleted.
	reasonTargetGone = "TargetGone"
	// reasonNotSent: pods in the namespace are not sent to the pod webhook.
	reasonNotSent = "PodsNotSent"
	// reasonGenerated: a PersistentPodState was created for a workload.
	reasonGenerated = "GeneratedPersistentPodState"
	// reasonNotGenerated: the PersistentPodState could not be generated.
	reasonNotGenerated = "FailedGeneratePersistentPodState"
)

// Actions of events.
const (
	actionRecord   = "Record"
	actionGenerate = "Generate"
)
