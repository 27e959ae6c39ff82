// Package cloneset runs CloneSets: a number of equal pods without fixed names, updated in place where only images or
// metadata change.
//
// The idea: one reconcile is observe, plan, apply, status. The plan is a pure function of what was observed; the engine
// (pkg/rollout) decides which pods change now, pkg/podset and pkg/podcontrol plan and do what is alike for all kinds that own
// pods, and this package adds what is a CloneSet's own: PVCs, names given to pods, the list podsToDelete, the deadline. Each pass does the next step only and ends; the watch on what it wrote starts
// the next reconcile. To learn how a CloneSet works, read plan.go.
//
//	observe.go   CloneSet, revisions, pods, PVCs from the cache; waits until the cache shows our last writes
//	plan.go      what to do and why; pvcs.go which PVCs live, go on to a new pod, or die
//	apply.go     do it: revision, deletes, edits, creations, then what is left over
//	status.go    counters, conditions, events; report.go writes them, counters at most once a second
//	progress.go  whether a rollout advances or is late
//	objects.go   the revision, pods and PVCs that a CloneSet makes
//	webhook.go   defaults and validation
//
// A pod costs two writes to create (the pod; its gate and lifecycle in one status patch, right after) and three to
// update in place (gate closed; spec; gate open). New resources are one more, and a pod that they do not restart stays in
// service: no gate is closed for it.
//
// Where it differs from OpenKruise on purpose: pods in the middle of an update never block a rollback; surge is used
// for pods that have to be re-created only, and not while paused; a long minReadySeconds does not hold up scale-in;
// a ReCreate is a plain deletion without a label written before; a named pod is deleted also from a small OnDelete set,
// as the default budget of 20% rounds up; a pod that is held by a hook for an update goes back into service when the
// update is paused, or kept from it by the partition; with all handlers of its hook on it, an updated pod goes from
// Updating to Normal in one write; conditions are taken off when their cause is gone, and each pod that becomes
// available extends the progress deadline.
//
// What it won't do yet: pull images before an update. The webhook refuses the fields that ask for it.
package cloneset
