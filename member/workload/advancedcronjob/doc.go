// Package advancedcronjob runs AdvancedCronJobs: a Job, BroadcastJob or ImageListPullJob for each time that a schedule is due.
//
// One reconcile is observe, plan, apply, status. To learn how an AdvancedCronJob works, read plan.go.
//
//	observe.go   reads the AdvancedCronJob and its jobs from the cache, once the cache shows our last writes
//	child.go     what the three kinds of jobs have in common, and how one is made from the template
//	plan.go      which run is due, what was missed, which jobs to create and to delete, and when to look again
//	apply.go     creates and deletes jobs
//	memory.go    what a manager knows of a pending run before its status has it
//	status.go    times, active jobs, runs, events
//	webhook.go   defaults and validation
//
// # No run twice
//
// Each due time up to lastScheduleTime is done with, whether its job exists or was deleted by a user, by its TTL or by a history limit.
// The name of a job is made of its due time.
//
// A job without a TTL stays until the status has its run, so it is the record of the run: it is created, and then the status is written,
// once. After a crash in between the job is found, or its creation is refused because it exists. The AdvancedCronJob is read from the
// apiserver before, so that nothing starts by a cache that does not show a pause, or what a former process has recorded.
//
// A job with a TTL may have come and gone when a manager looks again. Such a run is decided by a write of the status, which sets
// lastScheduleTime and pending, and which applies only to the version that was read. The next reconcile creates the job, and removes
// pending. So is a run before which others were missed, and one whose job could not be created. One case is not decidable: a crash between
// the creation of the job and the write that removes pending, and then an absence of the manager for longer than the job's TTL. The job
// may have come and gone, so the run is not repeated, and an event says so.
//
// It can't be prevented that a create of a manager that has lost its leadership arrives when the job that its successor has created is
// gone again, nor that a run is repeated whose job a user has deleted right after a crash, before the status had it.
//
// The history limits delete a job when the status has its result, and not before.
//
// Intended differences from OpenKruise: lastScheduleTime stays when jobs are deleted; after any number of missed runs the latest one is
// started; events of Jobs are noticed; status.runs has the results of the latest runs.
package advancedcronjob
