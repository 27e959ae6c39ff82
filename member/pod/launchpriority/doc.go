// Package launchpriority starts the containers of a pod in order: those of a lower launch priority when all of a higher one are ready.
//
// The pod webhook (step.go) gives each container but the first ones an env variable from a key of a ConfigMap that does not exist, and
// the kubelet starts no container whose env it can't resolve. The controller writes the key of the next priority when the containers
// before it are ready, and then an annotation on the pod, by which the kubelet tries at once and not after its wait of ten seconds or
// more. This is OpenKruise's way, and the pods that it made are carried on with. There is no other one for containers that run side by
// side: native sidecars, which the kubelet starts in order, are init containers.
//
// A pod whose containers have all been let go costs nothing any more. Its ConfigMap stays, because the kubelet reads it again for each
// restart, and goes with the pod.
package launchpriority
