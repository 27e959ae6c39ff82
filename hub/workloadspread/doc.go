// Package workloadspread places the workload of a WorkloadSpread in the clusters of the fleet: it fills subsets in their order up to
// maxReplicas, and sends each cluster its share of the workload, and a WorkloadSpread with the subsets that are there.
//
// The workload on the hub is a template: a label says so, and nothing makes pods of it in the hub's own cluster (target.go). A
// reconcile is that of a workload and of the WorkloadSpread that has it as target, and writes two rows for a cluster: the slice of
// the WorkloadSpread, and the copy of the workload. A copy is made, and grows, once the member has applied the slice, so that no pod
// is created that its webhook would not know.
//
// divide.go divides the replicas, render.go builds slices and copies, status.go aggregates; the rest is in package placement. Each
// reconcile plans the next step only: allot.Allocate returns where replicas should run, allot.Transfer how far the grants may change
// now. A grant is for a cluster, not for a subset: the member's own WorkloadSpread fills the subsets of the cluster.
//
// With strategy Adaptive (adaptive.go) a cluster that can't schedule pods gets no more of them for a while, and those that wait move
// to the next one.
//
// Without its WorkloadSpread a workload is left as it is: its copies run on, with the same numbers. They are withdrawn when the
// workload is deleted.
package workloadspread
