// Package predownload pulls images on the nodes of pods that a CloneSet, StatefulSet or DaemonSet is about to update, before the update.
//
//	controller.go  reconciles workloads of one kind: observe, plan, apply
//	workload.go    reads what a plan needs from a workload of each kind
//	plan.go        which ImagePullJobs there should be; pure
//
// If the update revision has other images than the revision of existing pods, each new image gets an ImagePullJob for the nodes of the pods
// that are not updated. The update does not wait for it. Label keys.PreDownloadCreated of the ControllerRevision records that the jobs of a
// revision were created. The jobs are deleted ten minutes after they end, and not created again.
package predownload
