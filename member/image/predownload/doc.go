// Package predownload has images pulled on the nodes of pods that a CloneSet, StatefulSet or DaemonSet is going to update, before it does.
//
//	controller.go  reconciles workloads of one kind: observe, plan, apply
//	workload.go    reads what a plan needs from a workload of each kind
//	plan.go        which ImagePullJobs there should be; pure
//
// When the update revision has other images than the revision that pods still have, each image gets an ImagePullJob for the nodes of the
// pods that are not updated. The update does not wait for it. Label keys.PreDownloadCreated of the ControllerRevision says that the jobs of
// a revision were created: they are deleted ten minutes after their end, and not made again.
package predownload
