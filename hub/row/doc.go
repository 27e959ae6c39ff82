// Package row stores what the hub requests from its members: a WorkContent for each manifest, and a MemberWork (row) for each object and
// member.
//
// The controller of a kind passes a Want, and Store writes it. The manifest goes into a WorkContent that all members of an object share. The
// row has a reference to it, a merge patch with the differences for the cluster, and the grant. A manifest that only its own member may read,
// such as one with a Secret, is in the row instead. A row is written with the resource version that the decision was based on, so that only
// one of two hubs, or of a hub with a stale cache, can act on it.
//
// A row is withdrawn by deleting it. Its finalizer holds it until the member has reported that nothing is left there. Store withdraws at most
// max(10, 5 %) of a cluster's rows per minute. Beyond that, withdrawals continue in the next minute if one source, or objects of one source,
// were deleted. Otherwise they stop until an administrator removes an annotation from the MemberCluster, so that somebody can notice a
// mistake that removes many objects.
//
// Setup starts the controllers that remove the finalizer of withdrawn rows, and that delete contents which no row has referred to for five
// minutes.
//
// The package neither decides what a member gets, nor interprets manifests.
package row
