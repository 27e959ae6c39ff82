// Package ephemeraljob runs EphemeralJobs: ephemeral containers in pods that run already.
//
// One reconcile is observe, plan, apply, status, as for a CloneSet. The job owns no pods. To learn how an EphemeralJob works, read plan.go.
//
//	observe.go   reads the job and the pods of its namespace
//	pod.go       what a pod is to a job, and how far the containers in it are; which jobs an event of a pod enqueues
//	plan.go      which pods get the containers now, and whether the job has ended
//	apply.go     writes: containers, and what a deleted job has left of OpenKruise
//	status.go    counts, conditions, events
//	memory.go    which pods the apiserver has refused the containers for
//	webhook.go   validation
//
// Nothing can take an ephemeral container out of a pod again, so a pod gets those of a job in one write, for the version of the pod that
// was observed, and never again: each has the UID of the job in its environment, by which a process that has just started knows them too.
// Before its first write for a job, a process reads the pods from the apiserver, and waits until its cache shows them; so does the
// end of a job, which is final.
//
// Counts are of pods that exist, until the job has ended. A pod that goes takes its result with it, and gives its place to another one.
//
// Intended differences from OpenKruise: a job ends when some pods have succeeded and others failed, and when it has more replicas than there
// are pods; pods that wait for the containers are counted; a pod that the apiserver lets not have the containers has failed; the job has no
// finalizer.
package ephemeraljob
