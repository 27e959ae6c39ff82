// Package persistentpodstate remembers on which node each pod of a workload with stable names ran, and brings the next pod of
// that name back there.
//
//	observe.go   reads the PersistentPodState, its workload, pods and nodes
//	plan.go      what to remember and to forget, and whether to make or delete a generated one
//	apply.go     writes generated ones
//	status.go    what is remembered, as the status
//	step.go      the step of the pod webhook that uses it
//	target.go    which PersistentPodState has a workload as its target
//
// A request is the name of a PersistentPodState, and at the same time that of a workload for which one is generated: both have the
// same name.
//
// The status is all that is known about former pods, so nothing is removed from it because a cache lacks something: that a
// workload is gone is read from the apiserver. And nothing is recorded before the pod webhook gets the pods of the namespace.
package persistentpodstate
