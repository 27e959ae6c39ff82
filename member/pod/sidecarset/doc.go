// Package sidecarset adds the sidecars of SidecarSets to pods when they are created, and updates them in running pods.
//
//	webhook.go      defaults, and what schema can't say: validate.go for one SidecarSet, conflict.go for several
//	hash.go         the hashes that tell whether a pod has the current sidecars
//	record.go       what pods say about their sidecars, in annotations
//	step.go         reads which SidecarSets concern a new pod, and choose.go of which revision it gets the sidecars
//	inject.go       adds them to it
//	expr.go         computes resources of sidecars from those of a pod's own containers
//	revision.go     ControllerRevisions, which new pods may get instead of the current sidecars
//	update_plan.go  which pods get new images now, and how
//	controller.go   observe, plan, apply, status
//
// # Updates
//
// A pod whose hash without images is the SidecarSet's gets new images; any other one waits until it is created again, which a condition
// and an event say. pkg/rollout decides how many pods change at once. A pod does not count as available while its sidecars do not run
// what was written last, and while its kubelet has not acted on what somebody else has written. Each write is for the version of the pod
// that was observed, so neither a workload nor this controller undoes the other's.
//
// A sidecar with HotUpgrade is two containers, of which one works and the other runs an image that does nothing. Their versions are
// annotations, which the containers read by env to tell whether they take over. An update of image 1 to 2 at resourceVersion 30:
//
//	             log-1               log-2                written by
//	created      image 1, version 1  empty, version 0     the pod webhook
//	handing over image 1, version 1  image 2, version 30  the controller: log-2 is the one that works now
//	emptied      empty, version 0    image 2, version 30  the controller, when log-2 runs and is ready
//
// A pod that is handing over is not ready for the SidecarSet. The next update starts from the other side. If one starts before the
// former has ended, the container that is not ready takes over, else the one of the older version.
//
// All that it writes is what OpenKruise writes, so that pods with sidecars of OpenKruise need no update.
package sidecarset
