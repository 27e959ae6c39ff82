// Package propagation places hub objects of any kind, as they are, in the clusters of a fleet.
//
// A Propagation selects objects in its namespace, and a ClusterPropagation selects cluster-scoped objects. Both are called sources, and the
// same code reconciles both kinds. Each object has a row in each cluster; an object in a cluster is a place. The row is named after the object,
// so the apiserver allows only one source to own it.
//
//	watch.go         watches the selected kinds for as long as they are selected; maps a changed object or row to the sources to enqueue
//	observe.go       reads the selected objects, clusters and rows; finds out what happened to objects that have rows and are no longer
//	                 selected, and which other sources select or place the same objects
//	dependencies.go  finds the objects that pod templates need; united.go finds those that UnitedDeployments need
//	plan.go          decides in which clusters each object gets, keeps or loses its row, and why
//	divide.go        divides replicas over the clusters, if requested
//	render.go        renders the manifests to send, and what differs in a cluster
//	status.go        computes counts, the first problems and conditions
//
// An object that is missing from the cache is not withdrawn for that reason alone: the apiserver must confirm that the object doesn't exist,
// and that it serves the kind.
package propagation
