// Package sidecarset adds the sidecars of SidecarSets to pods when they are created, and updates them in running pods.
//
//	webhook.go      defaults, and validation that the schema can't express: validate.go for one SidecarSet, conflict.go for several
//	hash.go         the hashes that tell whether a pod has the current sidecars
//	record.go       the annotations in which pods record their sidecars
//	step.go         finds the SidecarSets that select a new pod; choose.go picks the revision whose sidecars the pod gets
//	inject.go       adds the sidecars to the pod
//	expr.go         computes a sidecar's resources from those of the pod's own containers
//	revision.go     ControllerRevisions, which new pods may get instead of the current sidecars
//	update_plan.go  decides which pods get new images now, and how
//	controller.go   observe, plan, apply, status
//
// # Updates
//
// A pod whose hash without images equals the SidecarSet's gets new images in place. Any other pod waits until it is recreated; a condition
// and an event report that. pkg/rollout decides how many pods change at once. A pod does not count as available while its sidecars don't yet
// run what was last written, or while its kubelet has not acted on what another controller wrote. Each write is conditional on the observed
// resourceVersion of the pod, so a workload and this controller never undo each other's changes.
//
// A sidecar with HotUpgrade consists of two containers: one works, and the other runs an image that does nothing. Their versions are
// annotations, which the containers read through env variables to tell whether they take over. An update from image 1 to image 2 at
// resourceVersion 30:
//
//	             log-1               log-2                written by
//	created      image 1, version 1  empty, version 0     the pod webhook
//	handing over image 1, version 1  image 2, version 30  the controller: log-2 is now the working one
//	emptied      empty, version 0    image 2, version 30  the controller, once log-2 runs and is ready
//
// A pod that is handing over is not ready for the SidecarSet. The next update starts from the other side. If it starts before the previous
// one has ended, the container that is not ready takes over, or else the one with the older version.
//
// Everything this package writes matches what OpenKruise writes, so pods with sidecars from OpenKruise need no update.
package sidecarset
