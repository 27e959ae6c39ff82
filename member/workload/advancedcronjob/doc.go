// Package advancedcronjob runs AdvancedCronJobs: a Job, BroadcastJob or ImageListPullJob for each time that a schedule is due.
//
// One reconcile is observe, plan, apply, status. To learn how an AdvancedCronJob works, read plan.go.
//
//	observe.go   reads the AdvancedCronJob and its jobs from the cache, once the cache shows our last writes
//	child.go     what the three kinds of jobs have in common, and how one is created from the template
//	plan.go      which run is due, what was missed, which jobs to create and delete, and when to recheck
//	apply.go     creates and deletes jobs
//	memory.go    what a manager knows about a pending run before its status shows it
//	status.go    times, active jobs, runs, events
//	webhook.go   defaults and validation
//
// # No run twice
//
// Each due time up to lastScheduleTime is settled, whether its job still exists or was deleted by a user, by its TTL or by a history limit.
// The name of a job is derived from its due time.
//
// A job without a TTL stays until the status shows its run, so the job is the record of the run. The job is created first, then the status is
// written once. After a crash in between, the job is found, or creating it fails because it exists. The AdvancedCronJob is read from the
// apiserver beforehand, so that nothing starts based on a cache that doesn't show a pause yet, or what an earlier process recorded.
//
// A job with a TTL may have come and gone before a manager looks again. Such a run is decided by a write of the status, which sets
// lastScheduleTime and pending and applies only to the version that was read. The next reconcile creates the job and removes pending. The same
// applies to a run before which others were missed, and to one whose job could not be created. One case can't be decided: a crash between the
// creation of the job and the write that removes pending, followed by an absence of the manager for longer than the job's TTL. The job may
// have come and gone, so the run is not repeated, and an event says so.
//
// Two things can't be prevented. A create request of a manager that has lost its leadership may arrive when the job created by its successor
// is already gone again. And a run may be repeated if a user deletes its job right after a crash, before the status shows it.
//
// The history limits delete a job only after the status has its result.
//
// Intended differences from OpenKruise: lastScheduleTime stays when jobs are deleted; after any number of missed runs, the latest one is
// started; events of Jobs are noticed; status.runs has the results of the latest runs.
package advancedcronjob
