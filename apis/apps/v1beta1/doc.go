// Package v1beta1 holds the stored version of the kinds in apps.kruise.io: CloneSet, DaemonSet, PersistentPodState,
// ResourceDistribution, StatefulSet, UnitedDeployment and WorkloadSpread. Controllers, webhooks and plans use this version; v1alpha1 is
// served as well and converted.
//
// The kinds' fields, defaults and rules are those of OpenKruise, so that manifests written for it apply unchanged; what
// a hub needs in addition is in optional fields. Each rule about a value is in the first place that can express it: a
// schema marker, a CEL rule, the kind's webhook. Defaults are set by the webhook, but for those marked here.
//
// The pod and volume claim templates are not in the schemas: a CRD with several pod templates in several versions would be
// too big for the apiserver, and the webhook checks a template as a pod.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1
