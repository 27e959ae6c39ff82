// Package inplace updates a pod without re-creating it: it decides whether the difference between two templates can be applied to a running pod,
// computes the writes, and reports when the containers run what was written.
//
// An in-place update consists of three writes to a pod, each computed here as a patch of the observed pod.
//
//	MarkUnready  status  gate InPlaceUpdateReady False, Ready False, lifecycle Updating; the old record is removed
//	Write        pod     images, labels and annotations of the new template, revision hashes, a record of what ran before
//	             resize  new cpu and memory, in a request of their own
//	MarkReady    status  gate True, and the state that the lifecycle goes to
//
// The record (keys.InPlaceUpdateState) is on the pod from Write on: a pod with a closed gate and no record is marked, and one with a record is
// updating. Progress derives from the record and the container statuses whether the update is done. A pod without the gate skips MarkUnready. So
// does an update that restarts nothing, such as a resize that the containers' resizePolicy allows without a restart. A change of only labels and
// annotations consists of Write alone.
//
// Containers with launch priorities are updated in batches: Write does the first, Progress reports when its containers are ready, and Continue
// does the next. The record holds what still has to be written, so that neither a crash between two requests nor a takeover by another
// controller loses it: this package reads the records of OpenKruise, and OpenKruise can read ours.
//
// These can be changed: images of containers and native sidecars, their cpu and memory, and labels and annotations of the template. Only
// containers in the templates are considered, so injected containers don't matter. An API server before Kubernetes 1.33 can't resize pods: then
// the caller sets NoResize, and Diff rejects such changes.
//
// The package doesn't restart containers that read a changed label or annotation by env, or whose template has a different value of
// keys.RestartContainers. The node daemon does that. The caller passes whether one is alive on the pod's node, and CanApply rejects the update
// if not. A container that gets a new image in the same update restarts anyway and needs no daemon. What counts is what a container was started
// with: if somebody wrote the new metadata or the new image to the pod before the update, the container is restarted as well. The same holds if
// an earlier update took the new image away before the kubelet saw it. For this, the record holds what each container may have been started
// with.
package inplace
