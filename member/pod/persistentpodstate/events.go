package persistentpodstate

// Reasons of events and of the condition Active.
const (
	// ReasonRecording: pods are recorded, and new pods get what was recorded.
	ReasonRecording = "Recording"
	// ReasonForgotten: pods are no longer remembered.
	ReasonForgotten = "PodStatesForgotten"
	// ReasonNotAllowed: the target's kind is not allowed.
	ReasonNotAllowed = "TargetNotAllowed"
	// ReasonTargetTaken: an older PersistentPodState has the same target.
	ReasonTargetTaken = "TargetTaken"
	// ReasonTargetDenied: the manager may not read the target.
	ReasonTargetDenied = "TargetDenied"
	// ReasonTargetGone: the workload does not exist, or is being deleted.
	ReasonTargetGone = "TargetGone"
	// ReasonNotSent: pods in the namespace are not sent to the pod webhook.
	ReasonNotSent = "PodsNotSent"
	// ReasonGenerated: a PersistentPodState was created for a workload.
	ReasonGenerated = "GeneratedPersistentPodState"
	// ReasonNotGenerated: the PersistentPodState could not be generated.
	ReasonNotGenerated = "FailedGeneratePersistentPodState"
)

// Actions of events.
const (
	actionRecord   = "Record"
	actionGenerate = "Generate"
)
