// Package row stores what the hub asks of its members: a WorkContent for each manifest, a MemberWork (row) for each object and
// member.
//
// The controller of a kind passes a Want, and Store writes it: the manifest goes into a WorkContent that all
// members of an object share; the row has a reference to it, a merge patch of what differs between clusters, and the grant. A manifest
// that only its own member may read is in the row instead, as each with a Secret. A row
// is written against the resource version that the decision was made on, so that of two hubs, or of a hub with a stale cache,
// only one can act on it.
//
// To withdraw a row is to delete it; its finalizer holds it until the member has reported that nothing is left there. Store
// withdraws at most max(10, 5 %) of a cluster's rows in a minute. Beyond that it goes on in the next minute if one source, or objects of
// one, were deleted; otherwise it stops until an administrator removes an annotation from the MemberCluster, so that a mistake which
// removes many objects can be noticed.
//
// Setup starts the controllers that remove the finalizer of withdrawn rows, and that delete contents which no row has referred to
// for five minutes.
//
// The package neither decides what a member gets, nor interprets a manifest.
package row
