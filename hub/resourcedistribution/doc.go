// Package resourcedistribution distributes Secrets and ConfigMaps to the clusters of a fleet.
//
// A ResourceDistribution with targets.clusters becomes a slice in each of these clusters: a ResourceDistribution with the same resource
// and the same namespaces. The member's own controller makes the copies, and its status comes back as numbers.
//
//	observe.go  the object, clusters and rows; which clusters still run what the hub placed
//	plan.go     which clusters get, keep and lose the slice, and why others do not
//	render.go   the slice
//	status.go   sums, the worst clusters, conditions
//	placed.go   which objects a cluster concerns
//
// A slice with a Secret is in the row, in the namespace of its cluster, and never in a WorkContent.
package resourcedistribution
