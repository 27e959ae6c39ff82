// Package podunavailablebudget limits how many pods of a workload, or of a selector, may be unavailable because of deletions, evictions,
// updates and resizes.
//
//	target.go    which budget protects a pod, and which pods a budget protects
//	judge.go     whether a request may go ahead, and what it takes
//	guard.go     asks that of each request, in all replicas
//	observe.go   reads the budget, its pods and how many there should be
//	plan.go      counts them, and forgets what was granted when it has come or has not
//	apply.go     writes the budget's name to pods that lack it
//	status.go    the counts, as the status
//	step.go      writes it to new pods
//
// The status is the ledger. A replica grants a request by a write of the status at the resourceVersion that it has judged by, and so
// does the controller write what it has counted: whoever comes second finds a conflict and begins again. So the same unit is never
// granted twice, however many replicas there are and whichever of them stops. What that rests on is that the controller counts
// no pod as available for which a grant may still be on its way: it forgets a grant only when it sees that very pod being deleted, or
// when its time is over and the apiserver shows how the pod is.
package podunavailablebudget
