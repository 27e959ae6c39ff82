// Package daemonset runs DaemonSets of apps.kruise.io: one pod on each node that fits.
//
// One reconcile is observe, plan, apply, status, as for a CloneSet. Nodes that fit are slots for the engine (pkg/plan/rollout). pkg/workload/podset and
// pkg/workload/podcontrol plan and apply what all kinds that own pods have in common, and this package adds which nodes fit. To learn how a DaemonSet
// works, read plan.go.
//
//	observe.go   reads DaemonSet, revisions, pods and nodes from the cache, once the cache shows our last writes
//	plan.go      what to do and why
//	apply.go     writes: adoptions, revision, pods
//	status.go    counts by node, conditions, events
//	nodes.go     which DaemonSets a node event enqueues
//	failures.go  the back-off of nodes on which pods fail
//	objects.go   the revision and pods of a DaemonSet
//	webhook.go   defaults and validation
//
// A new pod costs one write, or two with InPlaceIfPossible: the second write opens its gate.
//
// Intended differences from OpenKruise and Kubernetes: a pod that may stay on a node where none would be created is not updated, because it
// would not be replaced, and neither the budget nor the partition counts it; with a surge, an old pod that is not available is deleted at once
// instead of after its replacement; a burst in percent is at least one pod; a node event enqueues only the DaemonSets for which it changes
// something.
//
// Images are pulled before an update by member/image/predownload.
package daemonset
