// Package sidecarterminator ends sidecars of Jobs where that takes a write to the pod. Which containers those are, and when, is in
// pkg/jobsidecar; most are stopped by the node's daemon, which writes nothing: package member/node/terminator.
//
//   - A sidecar whose exit code is to be ignored: the pod is said to have ended, with the phase that its other containers give it, as soon as
//     no sidecar is left whose exit code counts. The kubelet then stops what still runs, and keeps the phase.
//   - A sidecar on a virtual node, which has no daemon: its image is replaced by the one that it names, which ends at once.
//
// Both are for the version of the pod that was read, and neither needs memory: what has ended stays so.
package sidecarterminator
