// Package uniteddeployment runs UnitedDeployments in one cluster: one workload for each subset, with a share of the replicas and the subset's
// nodes.
//
// One reconcile is observe, plan, apply, status. The plan divides the replicas (pkg/plan/spread), renders the workload of each subset and compares
// it with the existing one. The pods are left to the workloads' controllers. To learn how a UnitedDeployment works, read plan.go.
//
//	observe.go   reads UnitedDeployment, revisions and workloads from the cache, once the cache shows our last writes
//	plan.go      what to do and why; adaptive_plan.go and reserve_plan.go: which replicas leave a subset with Adaptive, or run twice
//	apply.go     writes: revision, deletions, updates and creations of workloads
//	status.go    sums, conditions, events
//	child.go     the kinds of workload as data: where each has its replicas, template, partition and counts
//	object.go    the revision and the workloads of a UnitedDeployment, and how an existing workload is updated
//
// A workload is written only if it differs from the wanted one. If it is at the update revision, only the fields that differ are written, so
// that a scale never touches a pod template with newer defaults of the apiserver. If it is at another revision, or has another patch, its
// whole spec is replaced.
//
// If a subset has two workloads, the older one is kept, regardless of the order in which the cache lists them. A subset whose only workload is
// terminating gets no new one until it is gone, so that its pods do not run twice.
//
// A workload's count of updated pods refers to the template that its controller has last observed. So the generation that introduced the
// template is written to an annotation, in the same request as the template. A scale or a partition changes the generation too, but does not
// invalidate the counts.
//
// A maxUnavailable of a subset is such a number too. An annotation says that the workload has it, so that it can be undone: a field that the
// template doesn't set would otherwise stay, like those of other writers.
//
// Deployments and StatefulSets of apps/v1 do not count the pods that are both updated and ready. A lower bound is used instead: the ready pods
// minus those that are not updated. It is exact when nothing changes.
//
// Objects whose subsets name clusters are left alone; a hub in the same cluster runs them.
//
// A subset's ordinals are enforced by reserving, in its StatefulSet, all ordinals that are not its own. So they apply even without the feature
// gate for ordinals.start, and a StatefulSet that exceeds them is refused instead of using the ordinals of another subset.
//
// With the schedule strategy Adaptive, replicas leave a subset whose pods can't be scheduled; see adaptive_plan.go. For that, the plan reads
// pods, and their events trigger reconciles. This applies only to objects with Adaptive.
//
// Not supported: reserveUnschedulablePods with StatefulSets. The webhook rejects it for new objects. An object that was stored before is
// reconciled, but no replica is moved to another subset; the condition SubsetFailure says so.
package uniteddeployment
