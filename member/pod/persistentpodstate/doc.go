// Package persistentpodstate remembers on which node each pod of a workload with stable names ran, and brings the next pod with the same name
// back there.
//
//	observe.go   reads the PersistentPodState, its workload, pods and nodes
//	plan.go      decides what to remember and forget, and whether to create or delete a generated PersistentPodState
//	apply.go     writes generated ones
//	status.go    writes what is remembered to the status
//	step.go      the step of the pod webhook that uses it
//	target.go    finds the PersistentPodState that targets a workload
//
// A reconcile request names a PersistentPodState, and also a workload for which one is generated: both have the same name.
//
// The status is the only record of former pods. So nothing is removed from it just because a cache lacks an object: only the apiserver
// confirms that a workload is gone. And nothing is recorded until the pod webhook gets the pods of the namespace.
package persistentpodstate
