// Package propagation places objects of the hub, of any kind, in the clusters of a fleet as they are.
//
// A Propagation selects objects of its namespace, a ClusterPropagation objects that are in none. Each object has a row in each cluster,
// named after the object, so that the apiserver lets only one source have it. Both kinds have the same controller.
//
//	watch.go    the kinds that are selected are watched for as long as they are; whom a change of an object or of a row concerns
//	observe.go  the selected objects, clusters and rows; what became of objects that have rows and are selected no more; who else
//	            selects or places the same
//	plan.go     which object gets, keeps and loses its row in which cluster, and why others do not
//	render.go   what is sent of an object, and what differs in a cluster
//	status.go   sums, the first problems, conditions
//
// That an object is missing from the cache is no reason to withdraw it: the apiserver has to say that there is none, and that it serves
// the kind.
package propagation
