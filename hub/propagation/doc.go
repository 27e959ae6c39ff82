// Package propagation places hub objects of any kind, as they are, in the clusters of a fleet.
//
// A Propagation selects objects in its namespace, and a ClusterPropagation selects cluster-scoped objects. Each object has a row in each
// cluster. The row is named after the object, so the apiserver allows only one source to own it. Both kinds share one controller.
//
//	watch.go    watches the selected kinds for as long as they are selected; finds the sources that a change of an object or row concerns
//	observe.go  reads the selected objects, clusters and rows; finds out what happened to objects that have rows and are no longer
//	            selected, and which other sources select or place the same objects
//	plan.go     decides which object gets, keeps and loses its row in which cluster, and why others don't
//	render.go   decides what is sent of an object, and what differs in a cluster
//	status.go   computes sums, the first problems and conditions
//
// An object that is missing from the cache is not withdrawn for that reason alone: the apiserver must confirm that the object doesn't exist,
// and that it serves the kind.
package propagation
