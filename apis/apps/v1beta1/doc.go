// Package v1beta1 holds the stored version of the workload kinds in apps.kruise.io: CloneSet, DaemonSet, StatefulSet and
// UnitedDeployment. It is the version that controllers, webhooks and plans know; v1alpha1 is served beside it and
// converts.
//
// The kinds' fields, defaults and rules are those that OpenKruise users know, so their manifests apply as they are; what
// a hub needs more is in optional fields. Each rule about a value stands in the first place that can say it: a schema
// marker, a CEL rule, the kind's webhook. Defaults are set by the webhook, but for those marked here.
//
// The pod and volume claim templates are not in the schemas: a CRD with several pod templates in several versions would be
// too big for the apiserver, and a template is checked as a pod by the webhook.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1
