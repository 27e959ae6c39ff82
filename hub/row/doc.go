// Package row keeps what the hub asks of its members: a WorkContent per manifest, a MemberWork per object and member.
//
// A kind's controller says what it wants as a Want; Store writes it, once and small: the manifest goes into a
// WorkContent that all members of the same object share, the row carries a reference, a merge patch of what differs by
// cluster, and the grant. A row is written against the resource version that the decision was made on, so that two hubs
// (or one hub with an old cache) can't both act on the same row.
//
// Withdrawing a row deletes it; its finalizer holds it until the member has reported that nothing is left there. Store
// withdraws at most max(10, 5 %) of a cluster's rows a minute: a mistake that removes many objects at once stops and
// asks, by an annotation on the MemberCluster that an administrator takes off.
//
// The Cleaner finishes withdrawn rows and collects contents that no row has referred to for an hour.
//
// The package never decides what a member gets, and never looks into a manifest.
package row
