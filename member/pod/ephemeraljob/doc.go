// Package ephemeraljob runs EphemeralJobs: ephemeral containers in running pods.
//
// One reconcile is observe, plan, apply, status, as for a CloneSet. The job owns no pods. To learn how an EphemeralJob works, read plan.go.
//
//	observe.go   reads the job and the pods in its namespace
//	pod.go       relates pods to a job, reads how far its containers are, and maps pod events to jobs
//	plan.go      decides which pods get the containers now, and whether the job has finished
//	apply.go     adds containers, and removes what OpenKruise left on a deleted job
//	status.go    counts, conditions, events
//	memory.go    remembers the pods for which the apiserver rejected the containers
//	webhook.go   validation
//
// An ephemeral container can't be removed from a pod. So a pod gets all containers of a job in one write, conditional on the observed version
// of the pod, and never again: each container has the UID of the job in its environment, so a restarted process recognizes it. Before its
// first write for a job, a process reads the pods from the apiserver, and waits until its cache shows them. It does the same before it ends a
// job, because that is final.
//
// Counts cover existing pods, until the job has finished. A pod that is deleted takes its result with it, and makes room for another.
//
// Intended differences from OpenKruise: a job finishes when some pods have succeeded and others failed, and when it has more replicas than
// there are pods; pods that wait for the containers are counted; a pod for which the apiserver rejects the containers has failed; the job has
// no finalizer.
package ephemeraljob
