// Package pods contains the structs that several workload kinds and versions share: lifecycle hooks, the strategy and the recorded state of
// an in-place update, the terms that order pods for an update, and the placement of subsets in clusters.
//
// They are parts of the APIs, not kinds: the package has no group and registers nothing. It doesn't contain logic either: pkg/pod/lifecycle,
// pkg/pod/inplace and pkg/plan/rollout interpret the values for pods, and hub/allot places replicas.
//
// +kubebuilder:object:generate=true
package pods
