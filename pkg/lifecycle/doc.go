// Package lifecycle says where a pod is between creation, update and deletion, as the pod's label tells everybody, what
// the hooks of its workload mean for it, and what to write when it moves on.
//
// The idea: the state lives on the pod, in keys.LifecycleState with the time of its last change in
// keys.LifecycleTimestamp, so that it survives its writer and users' tools can follow it. A hook is a set of labels and
// finalizers, its handlers. It is Hooked while any of them is on the pod, and Answered once all of them are. A pod counts
// as available only in the state Normal, which a pod without the label has too.
//
// What a pod goes to depends on what is wanted of it. "waits" is no write at all; Updating is the write of pkg/inplace:
//
//	state            to be in service             to be updated in place          to be deleted
//	PreparingNormal  Normal if preNormal is       PreparingUpdate if              PreparingDelete if
//	                 answered, else waits         inPlaceUpdate is hooked,        preDelete is hooked,
//	                                              else Updating                   else deleted
//	Normal           stays                        as PreparingNormal              (the same up to
//	PreparingUpdate  Normal if inPlaceUpdate is   waits while hooked,             Updated)
//	                 answered, else Updated       then goes on
//	Updating         so too, once done            anew, unasked
//	Updated          Normal if inPlaceUpdate is   PreparingUpdate, its handlers
//	                 answered, else waits         put back on
//	PreparingDelete  PreparingNormal, or          comes back first                waits while hooked,
//	                 Updating if one was begun                                    then deleted
//
// So no state is without a way out: an update that is taken back before it began leads to Normal, or to Updated where the
// user has let go of the pod and must take it up again; one that is replaced by another goes on to that one. Only a pod
// that was made not ready for its deletion does not come back, because whoever let its traffic go was told that it ends.
//
// With markPodNotReady a pod in PreparingUpdate or PreparingDelete is not ready: the condition keys.KruisePodReady is
// False while its message, a list that others write to as well, names the hook. The pod needs the readiness gate.
//
// The writes apply to the observed version of a pod only: users write to it at the same time, and one who has let go of a
// pod must not find it held, or in service, by a writer that saw it as it was before.
//
// What it won't do: it decides what is wanted of no pod. Package rollout does, from the facts of pkg/podset.
package lifecycle
