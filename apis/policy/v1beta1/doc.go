// Package v1beta1 contains the storage version of the kinds in policy.kruise.io: PodUnavailableBudget. Controllers, webhooks and the hub
// use this version; v1alpha1 is also served, by conversion.
//
// The fields, defaults and rules match OpenKruise, so that manifests written for it apply unchanged. Each rule about a value is in
// the first place that can express it: a schema marker, a CEL rule, the webhook of the kind.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1beta1
