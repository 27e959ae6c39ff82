// Package inplace updates a pod without re-creating it: it reports whether two templates differ in what a running pod can
// take over, computes the writes, and tells when the containers have followed.
//
// The idea: an in-place update is three writes to a pod, each computed here as a patch from the pod as it was observed.
//
//	MarkUnready  status  gate InPlaceUpdateReady False, Ready False, lifecycle Updating; the old record goes
//	Write        pod     images, labels and annotations of the new template, revision hashes, a record of what ran before
//	             resize  new cpu and memory, in a request of their own
//	MarkReady    status  gate True, and the state that the lifecycle goes to
//
// The record (keys.InPlaceUpdateState) is on the pod from Write on: a pod with a closed gate and no record is marked, one
// with a record is updating, and Progress says from the record and the container statuses whether it is done. A pod
// that has not got the gate skips MarkUnready, and so does an edit that restarts nothing: a resize where the containers' policy
// allows it. A change of labels and annotations alone is only Write.
//
// Containers with launch priorities are updated one batch after the other: Write does the first, Progress says when those
// are ready, and Continue does the next. What is still to be written stands in the record, so that a crash between two
// requests loses nothing, and so that a controller which takes over knows it: records of OpenKruise are read, and ours
// can be read by it.
//
// What can be changed: images of containers and of native sidecars, their cpu and memory, labels and annotations of the
// template. Only containers of the templates are looked at, so what others injected into the pod does not matter. An
// apiserver before Kubernetes 1.33 takes no new resources: the caller says so, and Diff refuses them.
//
// What it won't do: restart a container that reads a changed label or annotation by env. A node daemon does; the caller
// withMessage whether one lives on the pod's node, and Fits refuses the edit if not. A container that gets a new image in the
// same update starts anew anyway and needs none.
package inplace
