// Package expect remembers what a controller has written and its cache has not shown yet, so that a plan is never made from a
// state that is older than the controller's own last write.
//
// The idea: the apiserver answers every write with the object's UID and resourceVersion. The store keeps them per owner.
// Before the next plan the controller hands in the children that its cache shows, and the store says whether it may
// plan:
//
//	created   the UID must have been seen: a child that isn't in the cache may still be on its way
//	written   the cache must show the version that the write made, or a later one, or the child is gone
//	deleted   the child must be terminating or gone
//	unclear   the answer was lost: the child is looked up on the apiserver, and expected as it is there
//
// That compares states and not events, so the order in which watch events and answers arrive does not matter, and
// nothing has to be counted down in an event handler.
//
// A child can vanish before the cache ever showed it, and nothing that the cache will ever show says so. So a created child
// that is missing for two seconds is looked up on the apiserver, by its name. If it is gone there too, it is waited for no
// more. If it exists, the cache is behind, and it is asked again after twice the time: one read for an owner, not one for
// each of its children.
//
// Whatever else keeps the cache back, the wait ends after a time-out, which a metric counts: the controller reads its
// children from the apiserver instead of the cache, plans from that, and calls Renew, which drops what is gone and goes on
// waiting for what the cache merely lags behind. Read does all of it in one call, ReadFinalized does for owners that are being
// deleted too, and Settle ends the reconcile that it held back.
//
// The store also knows of owners whose namespace is being deleted, where the apiserver refuses every creation: Read holds them
// back, and package report neither writes their status nor sends events.
//
// What it won't do: survive a restart. A new process has a fresh cache that was listed after all earlier writes.
package expect
