package podunavailablebudget

// Reasons of events.
const (
	// ReasonNoPods: the budget has no pods.
	ReasonNoPods = "NoPods"
	// ReasonNotCounted: the expected number of pods could not be determined.
	ReasonNotCounted = "CalculateExpectedPodCountFailed"
	// ReasonNotDeleted: pods whose deletion was granted are still not being deleted.
	ReasonNotDeleted = "NotDeleted"
	// ReasonPrevented: a request was refused.
	ReasonPrevented = "PubPreventPodDeletion"
)

// Actions of events.
const (
	actionCount = "Count"
	actionJudge = "Judge"
)
