// Package daemonset runs DaemonSets of apps.kruise.io: one pod on each node that fits.
//
// The idea: a node that fits is a place of the engine (pkg/rollout), and all that a DaemonSet knows beyond that is which
// nodes those are. One pass is observe, plan, apply, status, as for a CloneSet; pkg/podset and pkg/podcontrol plan and do what is
// alike for all kinds that own pods. To learn how a DaemonSet works, read plan.go.
//
//	observe.go   DaemonSet, revisions, pods and nodes from the cache; waits until the cache shows our last writes
//	fit.go       on which nodes a pod runs, and on which it may stay
//	plan.go      what to do and why
//	apply.go     do it: revision, pods that are taken over, deletes, edits, creations
//	status.go    counters by node, conditions, events; writes them, counters at most once a second
//	nodes.go     which DaemonSets an event of a node concerns
//	failures.go  how long a node on which pods fail has to wait for the next one
//	objects.go   the revision and pods that a DaemonSet makes
//	webhook.go   defaults and validation
//
// A pod costs one write to create, or two with InPlaceIfPossible: the second one opens its gate.
//
// Where it differs from OpenKruise and Kubernetes on purpose: a pod that may stay on a node on which none would be made is
// not updated, as no other would come in its place, and neither the budget nor the partition counts it; with a surge, an
// old pod that does not serve is deleted at once instead of being given a second one beside it; a burst in percent lets one
// pod through at least; an event of a node starts passes of those DaemonSets for which it changes something.
//
// What it won't do: pull images before an update.
package daemonset
