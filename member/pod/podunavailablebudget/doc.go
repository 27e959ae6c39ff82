// Package podunavailablebudget limits how many pods of a workload, or of a selector, may be unavailable because of deletions, evictions,
// updates and resizes.
//
//	target.go    finds the budget that protects a pod, and the pods that a budget protects
//	judge.go     decides whether a request may go ahead, and what it takes from the budget
//	guard.go     runs that check for each request, in all replicas
//	observe.go   reads the budget, its pods, and how many pods are expected
//	plan.go      counts the pods, and drops grants that were used or have expired
//	apply.go     writes the budget's name to pods that lack it
//	status.go    writes the counts to the status
//	step.go      writes the budget's name to new pods
//
// The status is the ledger. A replica grants a request by writing the status at the resourceVersion that it judged, and the controller writes
// its counts the same way. Whoever comes second gets a conflict and starts over. So no unit is granted twice, however many replicas there are
// and whichever of them crashes. This relies on one rule: the controller never counts a pod as available while a grant for it may still be in
// flight. It drops a grant only when it sees that the pod with the same UID is being deleted, or when the grant has expired and the apiserver
// shows the state of the pod.
package podunavailablebudget
