// Package statefulset runs StatefulSets of apps.kruise.io: pods with an ordinal, a stable name and PVCs of their own.
//
// One reconcile is observe, plan, apply, status, as for every kind that owns pods. Ordinals are slots for the engine (pkg/plan/rollout), which
// decides which pods change now. pkg/workload/podset and pkg/workload/podcontrol plan and apply what all kinds that own pods have in common, and this package
// adds what is specific to a StatefulSet: ordinals, stable names, PVCs. To learn how a StatefulSet works, read plan.go.
//
//	observe.go         reads StatefulSet, revisions, pods and PVCs from the cache, once the cache shows our last writes
//	plan.go            what to do and why
//	pvcs.go            which PVCs are re-created, who owns them, and which are resized
//	apply.go           writes: adoptions, revision, PVCs, pods
//	status.go          counts, conditions, events
//	objects.go         the revision, pods and PVCs of a StatefulSet, and their names
//	webhook.go         defaults and validation; webhook_pvcs.go validates changes of volumeClaimTemplates
//	gates.go           the feature gates
//
// A new pod costs one write, and a second one if it has the readiness gate for in-place updates or hooks. PVCs are never deleted here. The
// garbage collector does that, based on the owners that persistentVolumeClaimRetentionPolicy sets.
//
// Intended differences from the StatefulSet of Kubernetes: a rollout replaces a broken pod even if others are not ready, so it recovers from a
// bad image; a pod that has ended is deleted out of order; deletions have preconditions for UID and resourceVersion; a scheduled pod that does
// not run and whose PVC is being deleted is re-created; no PVC gets a pod that is gone as its owner, and a set that keeps its PVCs is removed
// from their owners. The order is the same: scale-in also waits for available pods.
//
// Images are pulled before an update by member/image/predownload.
package statefulset
