// Package sidecarset adds the sidecars of SidecarSets to pods when they are created, updates them in place in pods that run, and keeps
// their revisions and status.
//
//	webhook.go      defaults, and what schema can't say: validate.go for one SidecarSet, conflict.go for several
//	hash.go         the hashes that tell whether a pod has the current sidecars
//	record.go       what pods say about their sidecars, in annotations
//	step.go         reads which SidecarSets concern a new pod
//	inject.go       adds their sidecars to it
//	expr.go         computes resources of sidecars from those of a pod's own containers
//	revision.go     ControllerRevisions, which new pods may get instead of the current sidecars
//	controller.go   observe, plan, apply, status
//	update_plan.go  which pods are updated in place, by pkg/rollout, and what is written to each
//
// A sidecar with upgrade type HotUpgrade has two containers in each pod, of which one works:
//
//	              name-1          name-2
//	injected      works, log:1    idle, empty image
//	upgrade       works, log:1    log:2 starts, and takes over what the first one serves
//	reset         idle, empty     works, log:2, when it is ready
//
// All that it writes is what OpenKruise writes, so that pods with sidecars of OpenKruise need no update.
package sidecarset
