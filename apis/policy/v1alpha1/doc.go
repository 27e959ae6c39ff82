// Package v1alpha1 contains the first version of the kinds in policy.kruise.io. It is served but never stored: PodUnavailableBudgets are
// converted to v1beta1, which everything else uses, and back.
//
// Fields of v1beta1 that OpenKruise's v1alpha1 doesn't have are represented by its annotations here (keys.ProtectOperations,
// keys.ProtectTotalReplicas), or by fields that it doesn't have. Nothing is lost when an object is read and written in this version.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1alpha1
