// Package pods holds the structs that several workload kinds and versions share: lifecycle hooks, the strategy and the
// recorded state of an in-place update, the terms by which pods are ordered for an update, and the placement of subsets
// over clusters.
//
// They are parts of the APIs, not kinds: the package has no group and registers nothing. It has no logic either; what
// the values mean for a pod is decided in pkg/lifecycle, pkg/inplace and pkg/rollout, how replicas are placed in
// hub/allot.
//
// +kubebuilder:object:generate=true
package pods
