// Package inplace updates a pod without re-creating it: it tells whether two templates differ in what a running pod can
// take over, computes the writes, and tells when the containers have followed.
//
// The idea: an update in place is three writes to a pod, each computed here as a Patch from the pod as it was observed.
//
//	Mark     status  gate InPlaceUpdateReady False, Ready False, lifecycle Updating; the old record goes
//	Write    pod     images, labels and annotations of the new template, revision hashes, a record of what ran before
//	Release  status  gate True, lifecycle Normal
//
// The record (keys.InPlaceUpdateState) is on the pod from Write on: a pod with a closed gate and no record is marked, one
// with a record is updating, and Progress says from the record and the container statuses whether it is done. A pod
// that has not got the gate skips Mark; a change of labels and annotations alone is only Write.
//
// What can be changed: images of containers (not of init containers), labels and annotations of the template. Only
// containers of the templates are looked at, so what others injected into the pod does not matter.
//
// What it won't do: restart a container that reads a changed label or annotation by env. A node daemon could; without
// one such a change is refused, unless the container gets a new image in the same update and so starts anew anyway.
package inplace
