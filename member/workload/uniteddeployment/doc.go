// Package uniteddeployment runs UnitedDeployments in one cluster: one workload for each subset, with a share of the replicas and
// the subset's nodes.
//
// One reconcile is observe, plan, apply, status. The plan divides the replicas (pkg/spread), renders the workload of each subset
// and compares it with the existing one. The pods are left to the workloads' controllers. To learn how a UnitedDeployment works,
// read plan.go.
//
//	observe.go   reads UnitedDeployment, revisions and workloads from the cache, once the cache shows our last writes
//	plan.go      what to do and why; adaptive_plan.go, reserve_plan.go: which replicas leave a subset with Adaptive, or run twice
//	apply.go     writes: revision, deletions, updates and creations of workloads
//	status.go    sums, conditions, events
//	child.go     the kinds of workload as data: where each has its replicas, template, partition and counts
//	object.go    the revision and the workloads of a UnitedDeployment, and how an existing workload is updated
//
// A workload is written only if it differs from what is wanted. Of a workload at the update revision, only the fields that differ
// are written, so that a scale never touches a pod template with newer defaults of the apiserver. One at another revision, or
// with another patch, gets a whole new spec.
//
// Of two workloads of one subset the older is kept, whichever the cache lists first. A subset whose only workload is terminating
// gets no other one until it is gone, so that its pods do not run twice.
//
// A workload's count of updated pods is about the template that its controller has observed last. So the generation that brought
// the template is written to an annotation, in the same request as the template: a scale or a partition changes the generation
// too, but does not invalidate the counts.
//
// Deployments and StatefulSets of apps/v1 do not count the pods that are both updated and ready. A lower bound is used instead:
// the ready ones less those that are not updated. It is exact when nothing changes.
//
// Objects whose subsets name clusters are left alone: a hub in the same cluster runs them.
//
// A subset's ordinals become reserved ordinals of its StatefulSet: all that are not its own. So they apply even without the
// feature gate of ordinals.start, and a StatefulSet that exceeds them is refused instead of using those of another subset.
//
// With the schedule strategy Adaptive replicas leave a subset whose pods can't be scheduled: see adaptive_plan.go. The plan reads pods
// for that, and their events start reconciles, of objects with Adaptive only.
//
// Not supported: reserveUnschedulablePods with StatefulSets. The webhook refuses it for new objects. One that was stored before is
// reconciled, but no replica is moved to another subset; the condition SubsetFailure says so.
package uniteddeployment
