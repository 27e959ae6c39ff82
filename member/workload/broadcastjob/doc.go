// Package broadcastjob runs BroadcastJobs: one pod to completion on each node that fits.
//
// One reconcile is observe, plan, apply, status, as for a CloneSet. Nodes are slots for the engine (pkg/plan/rollout), which keeps pods that have
// ended in their slots. A job has no revisions, and its pods are never updated. To learn how a BroadcastJob works, read plan.go.
//
//	observe.go   reads job, pods and nodes from the cache, once the cache shows our last writes
//	plan.go      what to do and why
//	nodes.go     the state of each node; which jobs a node event enqueues
//	apply.go     writes: the pause, pods, the deletion after the TTL
//	status.go    counts, conditions, events
//	memory.go    what is known before the status shows it
//	webhook.go   defaults and validation
//
// The name of a pod is derived from the job's UID and the node, so that neither a crash nor a stale cache leads to two pods for one node.
// Nodes on which the pod has succeeded are in the status, and get no second pod when that pod is deleted. A pod costs one write.
//
// The job ends with a write of its status, before anything is deleted, so that the deletions can't make it start again. A pause after a
// failure is written to spec.paused before the status reports it; the other way round, it would look as if a user had resumed the job.
//
// Intended differences from OpenKruise: failurePolicy Pause is stored in spec.paused; surplus pods are deleted; a running pod stays on a node
// that is cordoned or tainted, and Kubernetes evicts it if necessary; a pod that is being deleted has not failed.
package broadcastjob
