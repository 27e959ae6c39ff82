// Package v1beta1 holds the stored version of the kinds in policy.kruise.io: PodUnavailableBudget. Controllers, webhooks and plans
// use this version; v1alpha1 is served as well and converted.
//
// The kind's fields, defaults and rules are those of OpenKruise, so that manifests written for it apply unchanged. Each rule about a
// value is in the first place that can express it: a schema marker, a CEL rule, the kind's webhook.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1beta1
