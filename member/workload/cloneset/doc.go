// Package cloneset runs CloneSets: a number of equal pods without fixed names, updated in place if only images or metadata change.
//
// One reconcile is observe, plan, apply, status. The plan is a pure function of what was observed. The engine (pkg/plan/rollout) decides which pods
// change now; pkg/workload/podset and pkg/workload/podcontrol plan and apply what all kinds that own pods have in common. This package adds what is specific to
// a CloneSet: PVCs, instance IDs, podsToDelete, the progress deadline. A reconcile takes only the next step; the watch events from its writes
// trigger the next reconcile. To learn how a CloneSet works, read plan.go.
//
//	observe.go   reads CloneSet, revisions, pods and PVCs from the cache, once the cache shows our last writes
//	plan.go      what to do and why; pvcs.go which PVCs are kept, reused by a new pod, or deleted
//	apply.go     writes: revision, PVC owners, pods, PVCs, podsToDelete
//	status.go    counts, conditions, events
//	progress.go  the condition Progressing
//	objects.go   the revision, pods and PVCs of a CloneSet
//	webhook.go   defaults and validation
//
// A new pod costs two writes (the pod, then its gate and lifecycle state in one status patch right after). An in-place update costs three
// (gate closed; spec; gate open). A resize costs one more. If it restarts no container, the pod stays ready: its gate is not closed.
//
// Intended differences from OpenKruise: pods in the middle of an update never block a rollback; surge is used only for pods that have to be
// re-created, and not while paused; a long minReadySeconds does not hold up scale-in; a ReCreate deletes the pod without labelling it first; a
// pod in podsToDelete is deleted even from a small OnDelete set, because the default budget of 20% rounds up; a pod in PreparingUpdate becomes
// ready again when the update is paused, or when the partition excludes the pod; an updated pod that has all handlers of its hook goes from
// Updating to Normal in one write; conditions are removed when their cause is gone, and each pod that becomes available extends the progress
// deadline.
package cloneset
