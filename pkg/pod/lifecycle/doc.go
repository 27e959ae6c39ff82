// Package lifecycle implements the lifecycle states of pods and the hooks of workloads: which state a pod is in, which hooks hold it, and the
// patches that change the state.
//
// The state is stored on the pod, in keys.LifecycleState, with the time of its last change in keys.LifecycleTimestamp. So it survives a restart,
// and users' tools can watch it. A hook is a set of labels and finalizers, its handlers. A pod is Hooked while it has any of them, and the hook
// is Answered once it has all of them. A pod counts as available only in the state Normal; a pod without the label is Normal too.
//
// The next state of a pod depends on what should happen to it. "waits" means no write at all; Updating is the write of pkg/pod/inplace:
//
//	state            to be in service             to be updated in place          to be deleted
//	PreparingNormal  Normal if preNormal is       PreparingUpdate if              PreparingDelete if
//	                 answered, else waits         inPlaceUpdate is hooked,        preDelete is hooked,
//	                                              else Updating                   else deleted
//	Normal           stays                        as PreparingNormal              (the same up to
//	PreparingUpdate  Normal if inPlaceUpdate is   waits while hooked,             Updated)
//	                 answered, else Updated       then goes on
//	Updating         the same, once done          again, without hook
//	Updated          Normal if inPlaceUpdate is   PreparingUpdate, its handlers
//	                 answered, else waits         put back on
//	PreparingDelete  PreparingNormal, or          comes back first                waits while hooked,
//	                 Updating if one was begun                                    then deleted
//
// So no state is a dead end: an update cancelled before it began leads to Normal, or to Updated if the hook has released the pod and must answer
// again; an update replaced by another one continues with that. The only exception is a pod that was made not ready for its deletion: it is
// deleted in any case, because the hook may have drained its traffic for good.
//
// With markPodNotReady a pod in PreparingUpdate or PreparingDelete is not ready: the condition keys.KruisePodReady is False while its message, a
// list that others write to as well, names the hook. The pod needs the readiness gate for this.
//
// The writes apply only to the observed version of a pod: users write to it at the same time, and a stale cache must not hold a pod that they
// have released, or put it into service.
//
// The package doesn't decide what should happen to a pod. Package rollout does, from the facts of pkg/workload/podset.
package lifecycle
