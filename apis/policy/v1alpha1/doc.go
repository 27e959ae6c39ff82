// Package v1alpha1 holds the first version of the kinds in policy.kruise.io. It is served and never stored: PodUnavailableBudgets are
// converted to v1beta1, which everything else uses, and back.
//
// What is in fields of v1beta1 that OpenKruise's v1alpha1 lacks is in its annotations here (keys.ProtectOperations,
// keys.ProtectTotalReplicas), or in fields that it does not have. So nothing is lost when an object is read and written in this version.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1alpha1
