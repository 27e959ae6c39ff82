package persistentpodstate

// Reasons of events and of the condition Active.
const (
	// ReasonRecording: pods are recorded, and new ones get what was recorded.
	ReasonRecording = "Recording"
	// ReasonForgotten: pods are not remembered any more.
	ReasonForgotten = "PodStatesForgotten"
	// ReasonNotAllowed: the target is of a kind that may not be one.
	ReasonNotAllowed = "TargetNotAllowed"
	// ReasonTargetTaken: an older PersistentPodState has the same target.
	ReasonTargetTaken = "TargetTaken"
	// ReasonTargetDenied: the manager may not read the target.
	ReasonTargetDenied = "TargetDenied"
	// ReasonTargetGone: the workload does not exist, or is being deleted.
	ReasonTargetGone = "TargetGone"
	// ReasonNotSent: pods of the namespace are not sent to the pod webhook.
	ReasonNotSent = "PodsNotSent"
	// ReasonGenerated: a PersistentPodState was created for a workload.
	ReasonGenerated = "GeneratedPersistentPodState"
	// ReasonNotGenerated: it can't be.
	ReasonNotGenerated = "FailedGeneratePersistentPodState"
)

// Actions of events.
const (
	actionRecord   = "Record"
	actionGenerate = "Generate"
)
