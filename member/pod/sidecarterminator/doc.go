// Package sidecarterminator ends the sidecars of Jobs in cases that take a write to the pod. pkg/pod/jobsidecar decides which containers and
// when. Most sidecars are stopped by the node's daemon, which writes nothing: see package member/node/terminator.
//
//   - A sidecar whose exit code is ignored: the pod is reported as finished, with the phase of its other containers, as soon as no sidecar whose
//     exit code counts is left. The kubelet then stops what still runs, and keeps the phase.
//   - A sidecar on a virtual node, which has no daemon: its image is replaced by the one that the sidecar names, which exits at once.
//
// Both writes are conditional on the version of the pod that was read, and neither needs memory: a finished pod stays finished.
package sidecarterminator
