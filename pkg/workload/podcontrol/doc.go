// Package podcontrol applies the plan for the pods of a workload (podset.Plan) and reports the results in logs, events, conditions and metrics.
//
// Writes go out in classes, such as all deletions or all creations. An error in one class doesn't stop the others. A kind calls these methods in
// the order it needs, with its own writes in between:
//
//	a := podcontrol.Applier{...}
//	a.EnsureRevision(ctx, p, &results)    the update revision; without it nothing else is written
//	a.Release, a.Delete, a.Patch          pods to release, delete and patch
//	a.Create                              pods to create
//	results.Failures, results.Events      the outcome, for conditions and events
//
// Writer writes one class and is the only place that sets expectations for pods and PVCs. Requests go out in batches, each twice as large as the
// one before, and stop after a batch with a failure: what fails for one pod usually fails for all. Creations start with a single request (slow
// start), because a quota may refuse them; the other classes start with the maximum number of concurrent requests. Responses that only say that
// the object has changed in the meantime are not errors:
//
//	delete   NotFound                                  success
//	delete   Conflict: resourceVersion or UID changed  skipped
//	create   AlreadyExists, controlled by the owner    success: an earlier reconcile created it
//	create   no response or a 5xx, and it exists       success, if controlled by the owner
//	create   the namespace is being deleted            skipped
//	patch    Conflict, NotFound, another UID           skipped: the watch event starts the next reconcile
//
// A create may have a patch that follows immediately; if that patch fails, the next reconcile handles it.
//
// The package makes no decisions and does not retry.
package podcontrol
