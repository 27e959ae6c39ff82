package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// StatefulSetSpec is the desired state of a StatefulSet. It is also used in the template of a UnitedDeployment.
//
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxUnavailable) || self.updateStrategy.rollingUpdate.maxUnavailable == 1",fieldPath=".updateStrategy",message="rollingUpdate.maxUnavailable must be 1 with podManagementPolicy OrderedReady, which changes one pod at a time: leave it out, or use Parallel"
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.scaleStrategy) || !has(self.scaleStrategy.maxUnavailable) || self.scaleStrategy.maxUnavailable == 1",fieldPath=".scaleStrategy",message="scaleStrategy.maxUnavailable must be 1 with podManagementPolicy OrderedReady, which creates one pod at a time: leave it out, or use Parallel"
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.unorderedUpdate)",fieldPath=".updateStrategy",message="rollingUpdate.unorderedUpdate needs podManagementPolicy Parallel: OrderedReady updates by ordinal"
type StatefulSetSpec struct {
	// replicas is the desired number of pods. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the pods. It must not be empty and must match the labels of template. It is immutable.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template describes the pods to create, as a PodTemplateSpec. Its restartPolicy must be Always. Changing it creates a new revision, which
	// is rolled out according to updateStrategy.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the PVCs that are created for each pod, as a list of PersistentVolumeClaims. They are named
	// <template>-<statefulset>-<ordinal>. A volume with the name of a template replaces the volume with the same name in template.
	// volumeClaimUpdateStrategy determines the effect of a change on existing PVCs.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// volumeClaimUpdateStrategy configures when PVCs are updated after a change of volumeClaimTemplates.
	// +optional
	VolumeClaimUpdateStrategy StatefulSetVolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitempty"`

	// serviceName is the name of the headless Service that provides the DNS names of the pods. It becomes their subdomain. It is immutable.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// podManagementPolicy specifies how pods are created and deleted when the StatefulSet is scaled. With OrderedReady, this happens one pod
	// at a time, each when its predecessors are available. With Parallel, pods don't wait for each other. It is immutable. Defaults to
	// OrderedReady.
	// +optional
	// +kubebuilder:validation:Enum=OrderedReady;Parallel;""
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`

	// updateStrategy configures how pods are updated to the revision of template.
	// +optional
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// scaleStrategy limits the creation of pods.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// reserveOrdinals are ordinals to skip. Values can be numbers (ex: 3) or ranges that include both ends (ex: 3-7). A pod with such an
	// ordinal is deleted, and another one is created with the next free ordinal.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:items:XIntOrString
	// +kubebuilder:validation:items:Pattern=`^[0-9]+-[0-9]+$`
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`

	// ordinals configures the numbering of pods, which begins at start. start defaults to 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.start) || self.start >= 0",fieldPath=".start",message="start can't be negative: the first ordinal is 0 or more"
	Ordinals *appsv1.StatefulSetOrdinals `json:"ordinals,omitempty"`

	// persistentVolumeClaimRetentionPolicy specifies whether PVCs are kept (Retain) or deleted (Delete) when the StatefulSet is deleted and
	// when it is scaled in. Both default to Retain.
	// +optional
	PersistentVolumeClaimRetentionPolicy *StatefulSetClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// lifecycle configures hooks that hold pods before deletion, before and after an in-place update, and after creation.
	// +optional
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// StatefulSetClaimUpdateType specifies when PVCs are updated after a change of volumeClaimTemplates.
//
// +kubebuilder:validation:Enum=OnDelete;OnPodRollingUpdate;""
type StatefulSetClaimUpdateType string

// Types of StatefulSetVolumeClaimUpdateStrategy.
const (
	// StatefulSetClaimOnDelete means that a PVC stays as it is until a user deletes it and a new one is created.
	StatefulSetClaimOnDelete StatefulSetClaimUpdateType = "OnDelete"
	// StatefulSetClaimOnPodRollingUpdate means that a PVC is expanded before its pod is updated, within the same limits.
	StatefulSetClaimOnPodRollingUpdate StatefulSetClaimUpdateType = "OnPodRollingUpdate"
)

// StatefulSetVolumeClaimUpdateStrategy configures when PVCs are updated after a change of volumeClaimTemplates.
type StatefulSetVolumeClaimUpdateStrategy struct {
	// type specifies when existing PVCs are updated. With OnDelete, they are left alone, and any change of the templates is allowed. With
	// OnPodRollingUpdate, they are resized before their pods are updated, and only the size in the templates may change. Defaults to OnDelete.
	// +optional
	Type StatefulSetClaimUpdateType `json:"type,omitempty"`
}

// StatefulSetClaimRetentionPolicy specifies what happens to PVCs whose pods are gone permanently.
type StatefulSetClaimRetentionPolicy struct {
	// whenDeleted specifies what happens to the PVCs when the StatefulSet is deleted: Retain or Delete. Defaults to Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete;""
	WhenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenDeleted,omitempty"`

	// whenScaled specifies what happens to the PVCs of pods that are scaled in or whose ordinals are reserved: Retain or Delete. Defaults to
	// Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete;""
	WhenScaled appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
}

// StatefulSetScaleStrategy limits the creation of pods.
type StatefulSetScaleStrategy struct {
	// maxUnavailable is the maximum number of pods that may be unavailable while pods are created, with podManagementPolicy Parallel. Value
	// can be an absolute number (ex: 5) or a percentage of replicas (ex: 10%), which is rounded down, with a minimum of 1. It doesn't delay
	// scaling in. If unset, there is no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : !self.matches('^0+%$')",message="scaleStrategy.maxUnavailable must be at least 1, or no pod could be created: raise it, or leave it out for no bound"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// StatefulSetUpdateStrategy configures how the pods of a StatefulSet are updated to a new revision.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'OnDelete' || !has(self.rollingUpdate)",fieldPath=".rollingUpdate",message="rollingUpdate has no effect with type OnDelete: remove it (rollingUpdate: null), or use type RollingUpdate"
type StatefulSetUpdateStrategy struct {
	// type is the type of the update: RollingUpdate or OnDelete. With OnDelete, pods are updated only when a user deletes them. Defaults to
	// RollingUpdate.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
	Type appsv1.StatefulSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate configures the type RollingUpdate. It can't be set with OnDelete.
	// +optional
	RollingUpdate *StatefulSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// StatefulSetRollingUpdateStrategy configures a rolling update.
type StatefulSetRollingUpdateStrategy struct {
	// partition is the number of pods that stay at the old revision: the pods with the lowest ordinals that are not reserved. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Partition *int32 `json:"partition,omitempty"`

	// maxUnavailable is the maximum number of pods that may be unavailable because of the update. Value can be an absolute number (ex: 5) or a
	// percentage of replicas (ex: 10%), which is rounded down, with a minimum of 1. Values other than 1 require podManagementPolicy Parallel.
	// Defaults to 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : !self.matches('^0+%$')",message="rollingUpdate.maxUnavailable must be at least 1, or no pod could be updated: raise it, or use paused to stop the update"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// podUpdatePolicy specifies how a pod is updated. ReCreate replaces it with a new one. InPlaceIfPossible updates it in place if only
	// images and metadata differ, and recreates it otherwise. InPlaceOnly updates it in place, and rejects changes of template that don't
	// allow this. The last two require the readiness gate InPlaceUpdateReady in template. Defaults to ReCreate.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`

	// paused stops the update, but not scaling. Defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// unorderedUpdate allows updating pods in another order than by ordinal. It requires podManagementPolicy Parallel.
	// +optional
	UnorderedUpdate *StatefulSetUnorderedUpdate `json:"unorderedUpdate,omitempty"`

	// inPlaceUpdateStrategy configures in-place updates.
	// +optional
	InPlaceUpdateStrategy *pods.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`

	// minReadySeconds specifies how long a pod must be ready before it counts as available, in seconds. It must be in the range 0-300. With
	// OrderedReady it also delays the creation of the next pod. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// StatefulSetUnorderedUpdate orders the pods for an update by their labels.
type StatefulSetUnorderedUpdate struct {
	// priorityStrategy is the order of the update. Pods with equal priority, or all pods if it is unset, are updated by ordinal, highest
	// first.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetStatus is the observed state of a StatefulSet.
type StatefulSetStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of existing pods, including pods that are being deleted.
	// +required
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of ready pods.
	// +required
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is the number of pods that have been ready for minReadySeconds and are not held by a hook.
	// +required
	AvailableReplicas int32 `json:"availableReplicas"`

	// currentReplicas is the number of pods at currentRevision, excluding pods that are being deleted.
	// +required
	CurrentReplicas int32 `json:"currentReplicas"`

	// updatedReplicas is the number of pods at updateRevision, excluding pods that are being deleted.
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

	// collisionCount is the number of times that the name of a new ControllerRevision was already taken. It is included in the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions are the latest observations of the StatefulSet's state.
	// +optional
	// +listType=atomic
	Conditions []WorkloadCondition `json:"conditions,omitempty"`

	// labelSelector is spec.selector in string form, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`

	// volumeClaims contains the number of PVCs that match each volume claim template.
	// +optional
	// +listType=atomic
	VolumeClaims []StatefulSetVolumeClaimStatus `json:"volumeClaims,omitempty"`
}

// StatefulSetVolumeClaimStatus is the observed state of the PVCs of one template.
type StatefulSetVolumeClaimStatus struct {
	// volumeClaimName is the name of the template.
	// +required
	VolumeClaimName string `json:"volumeClaimName"`

	// compatibleReplicas is the number of PVCs that request at least the size of the template, in its storage class and with its modes.
	// +required
	CompatibleReplicas int32 `json:"compatibleReplicas"`

	// compatibleReadyReplicas is the number of compatible PVCs whose volume has the requested size.
	// +required
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}

// StatefulSet runs pods with stable names, stable ordinals and their own PVCs. It updates them in place if only images or metadata change,
// can skip ordinals, and can resize their PVCs.
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
