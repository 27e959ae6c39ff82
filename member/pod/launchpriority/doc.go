// Package launchpriority starts the containers of a pod in order: those with a lower launch priority start once all with a higher one are
// ready.
//
// The pod webhook (step.go) gives each container except the first ones an env variable from a key of a ConfigMap that doesn't exist yet, and
// the kubelet doesn't start a container whose env it can't resolve. Once the preceding containers are ready, the controller writes the key
// for the next priority. Then it writes an annotation on the pod, which makes the kubelet retry at once instead of after its back-off of ten
// seconds or more. This is OpenKruise's mechanism, and the controller also handles pods created by OpenKruise. There is no other way for
// containers that run side by side: native sidecars, which the kubelet starts in order, are init containers.
//
// A pod costs nothing once all of its containers may start. Its ConfigMap stays, because the kubelet reads it again for each restart, and is
// deleted with the pod.
package launchpriority
