// Package placement is the common part of the kinds that the hub places in clusters: it decides where objects can be placed, and reads,
// writes and withdraws their rows.
//
// A kind has three pure functions of its own and calls this package for the rest:
//
//	divide   which cluster gets which part of the object; package allot has the arithmetic
//	render   a cluster's part as a row (row.Want)
//	gather   the status of the rows as the status of the object
//
// They are fields of a Kind, and its Controller calls them. A reconcile:
//
//	Client.Fleet   reads the clusters and the object's rows, once the cache shows our last writes
//	Plan           the kind divides and renders, with Fleet.Availability, Fleet.Select and Withdraw
//	Require        the kind writes what the rows name, if they name anything
//	Client.Apply   writes the finalizer, the rows and the withdrawals
//	Status         the kind gathers, with the Summary of its rows
//
// RowHandler and ClusterHandler are its watches. Fresh holds a new leader back until its cache shows what the previous leader
// wrote. A Sweeper withdraws the rows of objects that are gone. All kinds share one Fresh, one Sweeper and one row.Store, whose
// limits therefore apply to all rows of a namespace.
//
// A cluster that doesn't answer is frozen: it keeps what it has, and the others continue. A MemberCluster that is missing from a list doesn't
// prove that the cluster has left, so its rows stay. Rows are deleted when the object is deleted, or when the kind withdraws them. If the
// object's whole namespace is being deleted, the objects in the members stay.
//
// The package neither divides replicas nor interprets manifests.
package placement
