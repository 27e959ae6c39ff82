// Package workloadspread spreads the pods of one workload over subsets: groups of nodes, each with a maximum number of pods.
//
//	observe.go   reads the WorkloadSpread, its workload, pods and nodes
//	plan.go      finds each pod's subset and deletion cost, and the pods that can't be scheduled
//	status.go    writes the room left in each subset to the status
//	apply.go     annotates and deletes pods
//	step.go      the step of the pod webhook, which assigns new pods
//	left.go      makes a new pod wait for the place of one that has just left
//	count.go     computes how many pods a subset may have, for both step and plan
//	inject.go    applies a subset's settings to a pod
//	target.go    finds the WorkloadSpread that targets a workload
//
// The status is a ledger with two writers. The webhook takes a place for each pod that it admits, in all replicas at once. The controller
// counts the existing pods, and the places that are taken but not seen as pods yet. Both write at a resourceVersion, so neither overwrites
// the other. When in doubt, a pod is counted twice rather than not at all: a place is given back only when the cache shows that the pod has
// terminated, or when the apiserver has no such pod half a minute after the controller first saw the place.
//
// Unlike for other kinds, the status is written before pods are changed: a pod must be in the ledger before it is adopted or deleted.
package workloadspread
