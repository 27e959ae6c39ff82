// Package expect remembers what a controller has written but its cache doesn't show yet, so that no reconcile plans from a state older than the
// controller's own last write.
//
// The API server answers every write with the object's UID and resourceVersion. The store keeps them per owner. Before the next plan the
// controller passes in the children that its cache shows, and the store checks them:
//
//	created   the UID must have been seen: a child that isn't in the cache may still be on its way
//	written   the cache must show the version that the write made, or a later one, or the child is gone
//	deleted   the child must be terminating or gone
//	ambiguous the response to a write was lost: the child is looked up on the API server, and expected as it is there
//
// This compares states, not events, so the order in which watch events and responses arrive doesn't matter, and no event handler has to count
// anything down.
//
// A child can be deleted before the cache ever shows it. So a created child that is missing from the cache for two seconds is looked up by name
// on the API server. If it is gone there too, the expectation is dropped. If it exists, the cache is stale, and the lookup is repeated after
// twice the time: one read per owner, not one for each of its children.
//
// In any case the wait ends after a timeout, which is counted in a metric: the controller reads its children from the API server instead of the
// cache, plans from that, and calls Renew, which drops the expectations for children that are gone and keeps the others. Read does all of this
// in one call, ReadFinalized does the same but also for owners that are being deleted, and Settle ends a reconcile that has to wait.
//
// The store also tracks owners whose namespace is terminating, where the API server refuses every create: Read ends their reconciles, and
// package report neither writes their status nor sends events.
//
// The store doesn't survive a restart and need not: a new process lists a fresh cache after all earlier writes.
package expect
