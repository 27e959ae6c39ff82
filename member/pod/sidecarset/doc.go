// Package sidecarset adds the sidecars of SidecarSets to pods when they are created, and updates them in running pods.
//
//	webhook.go      admission of SidecarSets: default.go; validate.go for one SidecarSet, conflict.go for several; whitelist.go for annotations
//	hash.go         the hashes that tell whether a pod has the current sidecars
//	record.go       the annotations in which pods record their sidecars
//	step.go         the step of the pod webhook; choose.go picks the SidecarSets, and their revisions, whose sidecars a new pod gets
//	inject.go       adds the sidecars to the pod
//	resources.go    computes a sidecar's resources from those of the pod's own containers, with expressions that expr.go parses
//	revision.go     ControllerRevisions, whose sidecars new pods may get instead of the current ones
//	controller.go   observe.go, plan.go, apply.go, status.go
//	update_plan.go  the part of the plan that decides which pods get new images now, and how
//
// # Updates
//
// A pod whose hash without images equals the SidecarSet's gets new images in place. Any other pod waits until it is recreated, which this
// controller requests only with podUpdatePolicy InPlaceIfPossible; a condition and an event report that. pkg/plan/rollout decides how many
// pods change at once. A pod does not count as available until its sidecars run what was last written, and its kubelet has acted on what
// other controllers wrote. Each write is conditional on the observed resourceVersion of the pod, so a workload and this controller never
// undo each other's changes.
//
// A sidecar with HotUpgrade consists of two containers: one is in use, and the other runs an image that does nothing. Their versions are
// annotations, which the containers read through env variables to find out which of them takes over. An update from image 1 to image 2 at
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
// Hashes, revisions and annotations match those of OpenKruise, so pods with sidecars from OpenKruise need no update.
package sidecarset
