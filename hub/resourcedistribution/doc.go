// Package resourcedistribution distributes Secrets and ConfigMaps to the clusters of a fleet.
//
// A ResourceDistribution with targets.clusters becomes a slice in each of these clusters: a ResourceDistribution with the same resource and
// the same namespaces. The member's own controller creates the copies, and its status comes back as numbers.
//
//	observe.go  reads the object, clusters and rows; finds out which clusters still run what the hub placed
//	plan.go     decides which clusters get, keep and lose the slice, and why others don't
//	render.go   renders the slice
//	status.go   computes sums, the worst clusters and conditions
//	placed.go   finds the objects that a cluster concerns
//
// A slice with a Secret is stored in the row, in the namespace of its cluster, and never in a WorkContent.
package resourcedistribution
