// Package rollout answers one question for every kind that owns or edits pods: which pods change now, and why.
//
// The idea: Next is a pure function of a Goal (how many pods, how many of them old, how many may be unavailable or too
// many) and of the pods as plain facts. It returns a Decision with the next steps only. Nothing is stored between two calls; a caller
// does the steps, observes again and asks again, until there is no step. The same facts give the same steps, in
// whatever order the pods are listed.
//
// One rule bounds all that takes pods out of service, whether a pod is marked for deletion, surplus, re-created or updated
// in place:
//
//	available pods - 1 >= Want - MaxUnavailable
//
// What is unavailable already costs nothing: it may be deleted or updated at once. Two more rules pace an update:
//
//	unavailable pods of the new revision + pods chosen now <= MaxUnavailable + pods above Want
//	pods <= Want + surge, surge <= MaxSurge
//
// so that a revision that never becomes available stops after the first batch, and so that new pods come before old
// ones go only where a pod must be re-created (or where MaxUnavailable is 0 and nothing else could move).
//
// An update in place takes three steps on a pod: MarkUnready (the readiness gate becomes False), UpdateInPlace (write the spec, in one
// or several batches), MarkReady. UpdateState says where a pod is. A pod in the middle is unavailable already, so going on with
// it is never held, also towards another revision than the one it was marked for.
//
// A lifecycle hook may hold a pod. Then PrepareUpdate or PrepareDelete asks the hook first, which takes the pod out of service, and
// the step itself waits for the answer. What was prepared and is no longer wanted is undone by MarkReady or CancelDelete. A choice
// once made stays while it is right: pods that were prepared come first in every order.
//
// What differs by kind is data:
//
//	CloneSet     Want and Partition; Rank.Order from priorities
//	StatefulSet  Slots are the ordinals, those below the partition Old; Rank.Order is the ordinal, highest first; Ordered for
//	             OrderedReady; Partition instead of Old for an update by priority
//	DaemonSet    Slots are the nodes that fit, those that are not to be updated Old; MaxSurge is how many of them may hold two
//	             pods; CreateUpdated
//	SidecarSet   Want is the number of matched pods and the mode is InPlaceOnly, so nothing is created or deleted
//
// With Slots the budget counts slots that have an available pod. Pods in no wanted slot, and second ones in one slot, don't count
// and are deleted at once; so are pods that have ended, because a slot is free only when its pod is gone.
//
// What it won't do: it knows no API object but the value types in Rank, takes no time but as an argument, and draws no
// random names. It updates no pod from the new revision back to an old one, unless the goal asks for it.
package rollout
