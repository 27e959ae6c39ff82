package podunavailablebudget

// Reasons of events.
const (
	// ReasonNoPods: a budget has no pods.
	ReasonNoPods = "NoPods"
	// ReasonNotCounted: how many pods there should be could not be read.
	ReasonNotCounted = "CalculateExpectedPodCountFailed"
	// ReasonNotDeleted: pods whose deletion was granted are not being deleted.
	ReasonNotDeleted = "NotDeleted"
	// ReasonPrevented: a request was refused.
	ReasonPrevented = "PubPreventPodDeletion"
)

// Actions of events.
const (
	actionCount = "Count"
	actionJudge = "Judge"
)
