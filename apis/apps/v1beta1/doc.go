// Package v1beta1 contains the storage version of the kinds in apps.kruise.io: AdvancedCronJob, BroadcastJob, CloneSet,
// ContainerRecreateRequest, DaemonSet, ImageListPullJob, ImagePullJob, NodeImage, PersistentPodState, ResourceDistribution, SidecarSet,
// StatefulSet, UnitedDeployment and WorkloadSpread. Controllers, webhooks and the hub use this version; v1alpha1 is also served, by
// conversion.
//
// The fields, defaults and rules match OpenKruise, so that manifests written for it apply unchanged. What a hub needs in addition is
// in optional fields. Each rule about a value is in the first place that can express it: a schema marker, a CEL rule, the webhook of the
// kind. Defaults are set by the webhook, except for those in markers here.
//
// The schemas don't include pod templates and volume claim templates: a CRD with several pod templates in several versions would be too
// large for the apiserver, and the webhook validates a template like a pod.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1
