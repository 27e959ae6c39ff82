// Package inplace updates a pod without re-creating it: it decides whether the difference of two templates can be applied to
// a running pod, computes the writes, and reports when the containers run what was written.
//
// An in-place update is three writes to a pod, each computed here as a patch of the observed pod.
//
//	MarkUnready  status  gate InPlaceUpdateReady False, Ready False, lifecycle Updating; the old record is removed
//	Write        pod     images, labels and annotations of the new template, revision hashes, a record of what ran before
//	             resize  new cpu and memory, in a request of their own
//	MarkReady    status  gate True, and the state that the lifecycle goes to
//
// The record (keys.InPlaceUpdateState) is on the pod from Write on: a pod with a closed gate and no record is marked, one
// with a record is updating, and Progress derives from the record and the container statuses whether it is done. A pod
// without the gate skips MarkUnready, and so does an update that restarts nothing: a resize where the containers' policy
// allows it. A change of labels and annotations alone is only Write.
//
// Containers with launch priorities are updated one batch after the other: Write does the first, Progress reports when
// those are ready, and Continue does the next. What is still to be written is in the record, so that neither a crash between
// two requests nor another controller that takes over loses it: records of OpenKruise are read, and it can read ours.
//
// What can be changed: images of containers and of native sidecars, their cpu and memory, labels and annotations of the
// template. Only containers of the templates are looked at, so injected containers don't matter. An apiserver before
// Kubernetes 1.33 can't resize pods: then the caller sets NoResize, and Diff refuses such changes.
//
// The package does not restart containers that read a changed label or annotation by env, or whose template has another
// value of keys.RestartContainers. The node daemon does; the caller passes whether one is alive on the pod's node, and
// CanApply refuses the update if not. A container that gets a new image in the same update restarts anyway and needs none.
// What counts is what a container was started with: if somebody has written the new metadata, or the new image, to the pod
// before the update does, it is restarted as well. So it is if the new image is one that an earlier update took away before
// the kubelet saw that: for this the record has what each container may have been started with.
package inplace
