// Package uniteddeployment runs UnitedDeployments in one cluster: one workload for each subset, with a share of the
// replicas, in a place of its own.
//
// The idea: one reconcile is observe, plan, apply, status. The plan divides the replicas (pkg/spread), renders the workload of
// each subset and compares it with the one that is there. What a subset's workload does with its pods is the workload's
// own controller's business. To learn how a UnitedDeployment works, read plan.go.
//
//	observe.go   UnitedDeployment, revisions, workloads from the cache; waits until the cache shows our last writes
//	plan.go      what to do and why
//	apply.go     do it: revision, deletes, changes, creations, then what is left over
//	status.go    sums, conditions, events
//	child.go     the kinds of workload as data: where each keeps its replicas, template, partition and counts
//	object.go    the revision and the workloads that a UnitedDeployment makes, and how one that is there is changed
//
// A workload is written only where it differs from what was asked for. Of a workload at the present revision, only the
// fields that differ are written, so that a scale never touches a pod template that the apiserver has completed by newer
// defaults. One at another revision, or with another patch, gets a whole new spec.
//
// Two workloads of one subset: the older stays, whichever the cache lists first. A subset whose only workload is being
// deleted gets no other one until it is gone, so that its pods are not there twice.
//
// A workload's count of updated pods is about the template that its controller has seen last. The generation in which
// the template came is therefore written into an annotation, in the same request as the template: a scale or a partition
// makes a generation too, and leaves the counts true.
//
// Deployments and StatefulSets of apps/v1 do not count the pods that are both updated and ready. A lower bound stands in: the ready
// ones less those that are not updated. It is exact when nothing moves.
//
// Objects whose subsets name clusters are not touched: a hub in the same cluster runs them.
//
// A subset's ordinals become reserved ordinals of its StatefulSet: all that are not its own. So they hold whether or not
// ordinals.start does, which needs a feature gate, and a StatefulSet that outgrows them is refused and not numbered into those of
// another subset.
//
// What it won't do yet: the schedule strategy Adaptive. The webhook refuses it; on an object from before, the condition
// SubsetFailure says so, and nothing is changed.
package uniteddeployment
