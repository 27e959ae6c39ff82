package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// StatefulSetSpec is the desired state of a StatefulSet. It is also the template of a UnitedDeployment's subsets.
//
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxUnavailable) || self.updateStrategy.rollingUpdate.maxUnavailable == 1",fieldPath=".updateStrategy",message="rollingUpdate.maxUnavailable must be 1 with podManagementPolicy OrderedReady, which changes one pod at a time: leave it out, or use Parallel"
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.scaleStrategy) || !has(self.scaleStrategy.maxUnavailable) || self.scaleStrategy.maxUnavailable == 1",fieldPath=".scaleStrategy",message="scaleStrategy.maxUnavailable must be 1 with podManagementPolicy OrderedReady, which creates one pod at a time: leave it out, or use Parallel"
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.unorderedUpdate)",fieldPath=".updateStrategy",message="rollingUpdate.unorderedUpdate needs podManagementPolicy Parallel: OrderedReady updates by ordinal"
type StatefulSetSpec struct {
	// replicas is the desired number of pods. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the pods. It must not be empty and must match the labels of template; it can't be changed.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template describes the pods to create (a PodTemplateSpec). Its restartPolicy must be Always. Changing it makes a new
	// revision, which is rolled out according to updateStrategy.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the PVCs that each pod gets (a list of PersistentVolumeClaim), named
	// <template>-<statefulset>-<ordinal>. A volume of a template's name replaces one of the same name in template.
	// volumeClaimUpdateStrategy decides what a change does to existing PVCs.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// volumeClaimUpdateStrategy is when PVCs follow a change of volumeClaimTemplates.
	// +optional
	VolumeClaimUpdateStrategy StatefulSetVolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitempty"`

	// serviceName is the headless Service that gives the pods their DNS names; it becomes their subdomain. It can't be changed.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// podManagementPolicy is OrderedReady (default: pods are created and removed one after another, each when those before it
	// are available) or Parallel. It can't be changed.
	// +optional
	// +kubebuilder:validation:Enum=OrderedReady;Parallel;""
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`

	// updateStrategy is how pods are updated to the revision of template.
	// +optional
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// scaleStrategy bounds the creation of pods.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// reserveOrdinals are ordinals to skip: numbers, or ranges "3-7" with both ends included. A pod that has such an
	// ordinal is deleted, and another one is created with the next free ordinal.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:items:XIntOrString
	// +kubebuilder:validation:items:Pattern=`^[0-9]+-[0-9]+$`
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`

	// ordinals is where the numbering of pods begins: at start, default 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.start) || self.start >= 0",fieldPath=".start",message="start can't be negative: the first ordinal is 0 or more"
	Ordinals *appsv1.StatefulSetOrdinals `json:"ordinals,omitempty"`

	// persistentVolumeClaimRetentionPolicy is whether PVCs are kept (Retain, default) or deleted (Delete) when the
	// StatefulSet is deleted and when it is scaled in.
	// +optional
	PersistentVolumeClaimRetentionPolicy *StatefulSetClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// lifecycle holds pods before deletion, around an in-place update and after creation.
	// +optional
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// StatefulSetClaimUpdateType is when PVCs follow a change of volumeClaimTemplates.
//
// +kubebuilder:validation:Enum=OnDelete;OnPodRollingUpdate;""
type StatefulSetClaimUpdateType string

// Types of StatefulSetVolumeClaimUpdateStrategy.
const (
	// StatefulSetClaimOnDelete: a PVC stays as it is until a user deletes it, and a new one is created.
	StatefulSetClaimOnDelete StatefulSetClaimUpdateType = "OnDelete"
	// StatefulSetClaimOnPodRollingUpdate: a PVC is expanded before its pod is updated, within the same bounds.
	StatefulSetClaimOnPodRollingUpdate StatefulSetClaimUpdateType = "OnPodRollingUpdate"
)

// StatefulSetVolumeClaimUpdateStrategy is when PVCs follow a change of volumeClaimTemplates.
type StatefulSetVolumeClaimUpdateStrategy struct {
	// type is OnDelete (default: existing PVCs are left alone, any change of the templates is allowed) or
	// OnPodRollingUpdate (PVCs are resized, only the size in the templates may change).
	// +optional
	Type StatefulSetClaimUpdateType `json:"type,omitempty"`
}

// StatefulSetClaimRetentionPolicy is what happens to PVCs whose pod is gone for good.
type StatefulSetClaimRetentionPolicy struct {
	// whenDeleted is Retain (default) or Delete: what happens to the PVCs when the StatefulSet is deleted.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete;""
	WhenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenDeleted,omitempty"`

	// whenScaled is Retain (default) or Delete: what happens to the PVCs of pods that are scaled in, or whose ordinal is
	// reserved.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete;""
	WhenScaled appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
}

// StatefulSetScaleStrategy bounds the creation of pods.
type StatefulSetScaleStrategy struct {
	// maxUnavailable is how many pods may be unavailable while pods are created, with podManagementPolicy Parallel: a number or
	// a percentage of replicas, rounded down, at least 1. Unset: no limit. Pods that are scaled in do not wait for it.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : !self.matches('^0+%$')",message="scaleStrategy.maxUnavailable must be at least 1, or no pod could be created: raise it, or leave it out for no bound"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// StatefulSetUpdateStrategy is how a StatefulSet's pods are updated to a new revision.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'OnDelete' || !has(self.rollingUpdate)",fieldPath=".rollingUpdate",message="rollingUpdate has no effect with type OnDelete: remove it (rollingUpdate: null), or use type RollingUpdate"
type StatefulSetUpdateStrategy struct {
	// type is RollingUpdate (default) or OnDelete.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
	Type appsv1.StatefulSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate tunes the type RollingUpdate.
	// +optional
	RollingUpdate *StatefulSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// StatefulSetRollingUpdateStrategy tunes a rolling update.
type StatefulSetRollingUpdateStrategy struct {
	// partition is how many pods stay at the old revision, those with the lowest ordinals that are not reserved. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Partition *int32 `json:"partition,omitempty"`

	// maxUnavailable is how many pods may be unavailable because of the update: a number or a percentage of replicas,
	// rounded down, at least 1. Default 1; anything else needs podManagementPolicy Parallel.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : !self.matches('^0+%$')",message="rollingUpdate.maxUnavailable must be at least 1, or no pod could be updated: raise it, or use paused to stop the update"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// podUpdatePolicy is ReCreate (default), InPlaceIfPossible or InPlaceOnly. The last two need the readiness gate
	// InPlaceUpdateReady in template.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`

	// paused stops the update, not scaling. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// unorderedUpdate lets pods be updated in another order than that of their ordinals. Only with podManagementPolicy
	// Parallel.
	// +optional
	UnorderedUpdate *StatefulSetUnorderedUpdate `json:"unorderedUpdate,omitempty"`

	// inPlaceUpdateStrategy tunes updates in place.
	// +optional
	InPlaceUpdateStrategy *pods.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`

	// minReadySeconds is for how long a pod must be ready to count as available: 0 to 300. Default 0. It paces the creation
	// of pods with OrderedReady too.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// StatefulSetUnorderedUpdate orders pods for an update by their labels.
type StatefulSetUnorderedUpdate struct {
	// priorityStrategy is that order. Where it leaves a choice, or is unset, the highest ordinal goes first.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetStatus is the observed state of a StatefulSet.
type StatefulSetStatus struct {
	// observedGeneration is the metadata.generation that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of pods that exist, those that are being deleted included.
	// +required
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +required
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is the number of pods that were ready for minReadySeconds and are held by no hook.
	// +required
	AvailableReplicas int32 `json:"availableReplicas"`

	// currentReplicas is the number of pods at currentRevision, without those that are being deleted.
	// +required
	CurrentReplicas int32 `json:"currentReplicas"`

	// updatedReplicas is the number of pods at updateRevision, without those that are being deleted.
	// +required
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// updatedReadyReplicas is the number of pods at updateRevision that are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`

	// updatedAvailableReplicas is the number of pods at updateRevision that are available.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`

	// currentRevision is the name of the ControllerRevision that the pods are updated from. It becomes updateRevision
	// when all pods are updated and ready.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// updateRevision is the name of the ControllerRevision of spec.template.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// collisionCount is how often the name of a new ControllerRevision was taken; it goes into the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions are the latest observations of the StatefulSet's state.
	// +optional
	// +listType=atomic
	Conditions []WorkloadCondition `json:"conditions,omitempty"`

	// labelSelector is spec.selector as a string, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`

	// volumeClaims says for each volume claim template how many PVCs match it.
	// +optional
	// +listType=atomic
	VolumeClaims []StatefulSetVolumeClaimStatus `json:"volumeClaims,omitempty"`
}

// StatefulSetVolumeClaimStatus is the observed state of the PVCs of one template.
type StatefulSetVolumeClaimStatus struct {
	// volumeClaimName is the name of the template.
	// +required
	VolumeClaimName string `json:"volumeClaimName"`

	// compatibleReplicas is the number of PVCs that ask for at least the template's size, in its storage class and modes.
	// +required
	CompatibleReplicas int32 `json:"compatibleReplicas"`

	// compatibleReadyReplicas is the number of those whose volume has the size that the PVC asks for.
	// +required
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}

// StatefulSet runs pods that have a stable name, a stable ordinal and PVCs of their own. It updates them in
// place where only images or metadata change, skips ordinals if asked to, and resizes their PVCs.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=sts;asts
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].name`
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || self.spec.selector == oldSelf.spec.selector",fieldPath=".spec.selector",message="selector can't be changed: make a new StatefulSet"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || ((has(self.spec.serviceName) && size(self.spec.serviceName) > 0) == (has(oldSelf.spec.serviceName) && size(oldSelf.spec.serviceName) > 0) && (!has(self.spec.serviceName) || !has(oldSelf.spec.serviceName) || self.spec.serviceName == oldSelf.spec.serviceName))",fieldPath=".spec.serviceName",message="serviceName can't be changed, it is part of the pods: delete the StatefulSet with --cascade=orphan and create it with the new one, then delete the pods one by one"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || (has(self.spec.podManagementPolicy) && self.spec.podManagementPolicy == 'Parallel') == (has(oldSelf.spec.podManagementPolicy) && oldSelf.spec.podManagementPolicy == 'Parallel')",fieldPath=".spec.podManagementPolicy",message="podManagementPolicy can't be changed: delete the StatefulSet with --cascade=orphan and create it with the new one, its pods and PVCs stay"
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the StatefulSet.
	// +optional
	Spec StatefulSetSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSet.
//
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StatefulSet `json:"items"`
}
