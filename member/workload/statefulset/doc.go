// Package statefulset runs StatefulSets of apps.kruise.io: pods with a fixed name, a place in an order and PVCs of their own.
//
// The idea: one reconcile is observe, plan, apply, status, as for every kind that owns pods. The ordinals are places for the engine
// (pkg/rollout), which decides which pods change now; pkg/podset and pkg/podcontrol plan and do what is alike for all kinds, and this
// package adds what is a StatefulSet's own: ordinals, names, PVCs. To learn how a StatefulSet works, read plan.go.
//
//	observe.go         StatefulSet, revisions, pods from the cache, PVCs by their names; waits until the cache shows our last writes
//	plan.go            what to do and why
//	pvcs.go            which PVCs are re-created, with whom they go, and which are to grow
//	apply.go           do it, and take over what a former set has left
//	status.go          counters, conditions, events
//	objects.go         the revision, pods and PVCs that a StatefulSet makes, and their names
//	ordinals.go        which ordinals the pods have, with reserved ones left out
//	webhook.go         defaults and validation; webhook_pvcs.go those of a change of PVC templates
//	gates.go           the feature gates that a StatefulSet is planned by
//
// A pod costs one write to create, and a second one if it has the readiness gate for updates in place or hooks. PVCs are
// never deleted here: the garbage collector does that, by the owners that persistentVolumeClaimRetentionPolicy gives them.
//
// Where it differs from Kubernetes' StatefulSet on purpose: a broken pod is replaced by a rollout although others are not ready,
// so that a bad image needs no hand to get out of; a pod that has ended is deleted out of turn; deletions name UID and version;
// a pod on a node whose PVC is being deleted is re-created, within maxUnavailable; PVCs are given to nobody who is not
// there, but are taken from a set that is to keep them. In its order it does not: scale-in waits for health as there.
//
// What it won't do: pull images before an update. The webhook refuses the fields that ask for it.
package statefulset
