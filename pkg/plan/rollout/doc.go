// Package rollout answers one question for every kind that owns or updates pods: which pods change now, and why.
//
// Next is a pure function of a Goal (replicas, partition, maxUnavailable, maxSurge ...) and of plain facts about the pods. It returns a Decision
// that holds only the next steps. Nothing is stored between two calls: a caller applies the steps, observes the pods again and calls Next again,
// until no step is left. The same facts give the same steps, regardless of the order in which the pods are listed.
//
// One rule limits every step that takes a pod out of service, whether the pod is deleted, surplus, re-created or updated in place:
//
//	available pods - 1 >= Replicas - MaxUnavailable
//
// A pod that is already unavailable uses no budget: it may be deleted or updated at once. Two more rules limit the speed of an update:
//
//	unavailable updated pods + pods chosen now <= MaxUnavailable + pods above Replicas
//	pods <= Replicas + surge, surge <= MaxSurge
//
// The first of these two rules stops an update after its first batch if the revision never becomes available. Surge is used only where a pod
// must be re-created, or where MaxUnavailable is 0 and the update could not proceed otherwise.
//
// For pods that other objects own (Foreign), only the rule about unavailable updated pods applies, and it limits only pods that serve.
//
// An in-place update takes three steps on a pod: MarkUnready (the readiness gate becomes False), UpdateInPlace (write the spec, in one or
// several batches), MarkReady. UpdateState is the progress of a pod. A pod whose update has begun is already unavailable, so its next steps are
// never held, even if the update revision has changed since.
//
// A lifecycle hook may hold a pod. PrepareUpdate or PrepareDelete then takes the pod out of service and asks the hook, and the step itself waits
// for the answer. A preparation that is no longer needed is reverted by MarkReady or CancelDelete. Prepared pods come first in every order, so
// that the choice of pods is stable.
//
// Kinds differ only in their Goal:
//
//	CloneSet     Replicas and Partition; Rank.Order from priorities
//	StatefulSet  Slots are the ordinals, and those below the partition are Old; Rank.Order is the ordinal, highest first; Ordered
//	             for OrderedReady; Partition instead of Old for an update by priority
//	DaemonSet    Slots are the nodes that fit, and those that must not be updated are Old; MaxSurge is how many of them may hold two
//	             pods; CreateUpdated
//	SidecarSet   Replicas is the number of matched pods, Foreign, and the mode is InPlaceOnly, so nothing is created or deleted
//
// With Slots the budget counts slots that have an available pod. A pod in an unwanted slot, and a second pod in a slot, don't count and are
// deleted at once. So are pods that have ended, because a slot is free only when its pod is gone.
//
// The package knows no API objects apart from the value types in Rank, takes the time only as an argument, and generates no names. It never
// rolls a pod back to the old revision unless Goal.Rollback is set.
package rollout
