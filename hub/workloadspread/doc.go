// Package workloadspread places the workload of a WorkloadSpread in the clusters of the fleet. It fills subsets in order up to maxReplicas,
// and sends each cluster its share of the workload, and a WorkloadSpread with the subsets in that cluster.
//
// The workload on the hub is a template: it has a label that says so, and nothing creates pods for it in the hub's own cluster (target.go). A
// reconcile is for a workload and the WorkloadSpread that targets it. It writes two rows for a cluster: the slice of the WorkloadSpread, and
// the copy of the workload. A copy is created, and grows, only once the member has applied the slice, so that no pod is created that the
// member's webhook doesn't know.
//
// divide.go divides the replicas, render.go builds slices and copies, and status.go aggregates. The rest is in package placement. Each
// reconcile plans only the next step: allot.Allocate returns where replicas should run, and allot.Transfer how far the grants may change now.
// A grant is for a cluster, not for a subset: the member's own WorkloadSpread fills the subsets of the cluster.
//
// With strategy Adaptive (adaptive.go), a cluster that can't schedule pods gets no more of them for a while, and pending pods move to the
// next cluster.
//
// A workload without its WorkloadSpread is left as it is: its copies run on, with the same numbers. They are withdrawn when the workload is
// deleted.
package workloadspread
