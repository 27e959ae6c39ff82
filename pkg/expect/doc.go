// Package expect remembers what a controller has written and its cache does not show yet, so that no reconcile plans from a
// state that is older than the controller's own last write.
//
// The apiserver answers every write with the object's UID and resourceVersion. The store keeps them per owner. Before the
// next plan the controller passes the children that its cache shows, and the store checks them:
//
//	created   the UID must have been seen: a child that isn't in the cache may still be on its way
//	written   the cache must show the version that the write made, or a later one, or the child is gone
//	deleted   the child must be terminating or gone
//	ambiguous the answer of a write was lost: the child is looked up on the apiserver, and expected as it is there
//
// That compares states and not events, so the order in which watch events and answers arrive does not matter, and
// nothing has to be counted down in an event handler.
//
// A child can be deleted before the cache ever showed it. So a created child that is missing in the cache for two seconds is
// looked up on the apiserver, by its name. If it is gone there too, the expectation is dropped. If it exists, the cache is
// stale, and the lookup is repeated after twice the time: one read for an owner, not one for each of its children.
//
// In any case the wait ends after a timeout, which a metric counts: the controller reads its children from the apiserver
// instead of the cache, plans from that, and calls Renew, which drops the expectations of children that are gone and keeps
// the others. Read does all of it in one call, ReadFinalized does so for owners that are being deleted too, and Settle ends a
// reconcile that has to wait.
//
// The store also knows owners whose namespace is terminating, where the apiserver refuses every create: Read ends their
// reconciles, and package report neither writes their status nor sends events.
//
// The store does not survive a restart and need not: a new process has a fresh cache that was listed after all earlier writes.
package expect
