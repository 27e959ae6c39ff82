package podunavailablebudget

// Reasons of events.
const (
	// reasonNoPods: the budget has no pods.
	reasonNoPods = "NoPods"
	// reasonNotCounted: the expected number of pods could not be determined.
	reasonNotCounted = "CalculateExpectedPodCountFailed"
	// ReasonNotDeleted: pods whose deletion was granted are still not being deleted.
	ReasonNotDeleted = "NotDeleted"
	// reasonPrevented: a request was refused.
	reasonPrevented = "PubPreventPodDeletion"
)

// Actions of events.
const (
	actionCount = "Count"
	actionJudge = "Judge"
)
