// Package workloadspread spreads the pods of one workload over subsets: sets of nodes with a highest number of pods each.
//
//	observe.go   reads the WorkloadSpread, its workload, pods and nodes
//	plan.go      in which subset each pod is, what it costs to delete it, which pods can't be scheduled
//	status.go    what is left in each subset, as the status
//	apply.go     annotates and deletes pods
//	step.go      the step of the pod webhook, which assigns new pods
//	left.go      lets a new pod wait for the place of one that has just left
//	count.go     how many pods a subset may have: what step and plan agree on
//	inject.go    what a subset makes of a pod
//	target.go    which WorkloadSpread has a workload as its target
//
// The status is a ledger with two writers. The webhook takes a place for a pod that it admits, in all replicas at once; the controller
// counts the pods there are, and with those the places that are taken and not seen as pods yet. Both write at a resourceVersion, so
// neither overlooks the other. A pod is counted twice rather than not at all: a place is given back only when the cache shows that the
// pod has ended, or when the apiserver has no such pod half a minute after the controller saw the place.
//
// Other than in other kinds the status is written before pods are changed: a pod that is adopted or deleted must be in
// the ledger before.
package workloadspread
