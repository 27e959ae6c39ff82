// Package placement is what kinds that the hub places in clusters have in common: which clusters can be placed in, and how
// the rows of an object are read, written and withdrawn.
//
// A kind has three pure functions of its own and calls this package for the rest:
//
//	divide   which cluster gets which part of the object; package allot has the arithmetic
//	render   a cluster's part as a row (row.Want)
//	gather   the status of the rows as the status of the object
//
// A Kind has them, and its Controller calls them. A reconcile:
//
//	Client.Fleet   the clusters and the object's rows, once the cache shows our last writes
//	Plan           the kind divides and renders, with Fleet.Availability, Fleet.Select and Withdraw
//	Client.Apply   the finalizer, the rows, the withdrawals
//	Applied        the kind gathers, with Result.Applied, Fleet.Stale and Holders
//
// RowHandler and ClusterHandler are its watches. Fresh holds a new leader back until its cache shows what the former one wrote.
//
// A cluster that does not answer is frozen: it keeps what it has, and the others continue. A MemberCluster that is missing from
// a list does not prove that the cluster has left, so its rows stay. Rows are deleted when the object is deleted, or when the
// kind withdraws them; if the object's whole namespace is being deleted, the objects in the members stay.
//
// The package neither divides replicas nor interprets a manifest.
package placement
