package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// CloneSetSpec is the desired state of a CloneSet.
type CloneSetSpec struct {
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
	// <template>-<cloneset>-<instance id>. A volume with the name of a template replaces the volume with the same name in template. A change
	// doesn't create a new revision: it applies to pods that are created afterwards.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// scaleStrategy configures how pods are added and removed.
	// +optional
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// updateStrategy configures how pods are updated to the revision of template.
	// +optional
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// minReadySeconds specifies how long a pod must be ready before it counts as available, in seconds. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds specifies how long a rollout may make no progress before the condition Progressing becomes False, in seconds. It
	// must be greater than minReadySeconds. If unset or 2147483647, there is no deadline and the condition is not set.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// lifecycle configures hooks that hold pods before deletion, before and after an in-place update, and after creation.
	// +optional
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// CloneSetScaleStrategy configures how a CloneSet adds and removes pods.
type CloneSetScaleStrategy struct {
	// podsToDelete lists the names of pods to delete first when replicas decreases. If replicas doesn't change, the pods are replaced. Names
	// must be unique. A name is removed from the list when its pod is gone.
	// +optional
	// +listType=atomic
	PodsToDelete []string `json:"podsToDelete,omitempty"`

	// maxUnavailable limits the creation of pods while pods are unavailable. Value can be an absolute number (ex: 5) or a percentage of
	// replicas (ex: 10%), which is rounded up. If unset, there is no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable can't be negative"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// enablePVCReuse keeps the PVCs of a pod that was lost, because it was evicted or its node is gone, for the pod that replaces it. If
	// false, they are deleted with the pod. Defaults to false. CloneSets written in v1alpha1 have true unless they set disablePVCReuse.
	// +optional
	// +kubebuilder:default=false
	EnablePVCReuse bool `json:"enablePVCReuse,omitempty"`

	// excludePreparingDelete excludes pods that are held by a preDelete hook from the count, so that their replacements are created at once.
	// Defaults to false.
	// +optional
	ExcludePreparingDelete bool `json:"excludePreparingDelete,omitempty"`
}

// CloneSetUpdateStrategyType specifies what triggers the update of a pod.
//
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
type CloneSetUpdateStrategyType string

// Types of CloneSetUpdateStrategy.
const (
	// CloneSetRollingUpdate means that the controller updates pods within the limits of rollingUpdate.
	CloneSetRollingUpdate CloneSetUpdateStrategyType = "RollingUpdate"
	// CloneSetOnDelete means that a pod is replaced by one with the new revision only when a user deletes it.
	CloneSetOnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy configures how the pods of a CloneSet are updated to a new revision.
type CloneSetUpdateStrategy struct {
	// type is the type of the update: RollingUpdate or OnDelete. With OnDelete, pods are updated only when a user deletes them. Defaults to
	// RollingUpdate.
	// +optional
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate configures the type RollingUpdate. It has no effect with OnDelete.
	// +optional
	RollingUpdate *CloneSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// PodUpdatePolicy specifies how a pod is updated to a new revision.
//
// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly;""
type PodUpdatePolicy string

// Policies for the update of a pod.
const (
	// PodReCreate means that the pod is deleted and a new one is created.
	PodReCreate PodUpdatePolicy = "ReCreate"
	// PodInPlaceIfPossible means that the pod is updated in place if only images and metadata differ, and recreated otherwise.
	PodInPlaceIfPossible PodUpdatePolicy = "InPlaceIfPossible"
	// PodInPlaceOnly means that the pod is updated in place. Changes of the template that don't allow this are rejected.
	PodInPlaceOnly PodUpdatePolicy = "InPlaceOnly"
)

// CloneSetRollingUpdateStrategy configures a rolling update. Percentages refer to replicas.
type CloneSetRollingUpdateStrategy struct {
	// partition is the number of pods that stay at the old revision. Value can be an absolute number (ex: 5) or a percentage (ex: 10%), which
	// is rounded up. If there are two pods or more, a percentage above 0% keeps at least one old pod, and a percentage below 100% updates at
	// least one. Defaults to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="partition can't be negative"
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// maxUnavailable is the maximum number of pods that may be unavailable because of the update. Value can be an absolute number (ex: 5) or a
	// percentage (ex: 10%), which is rounded up if maxSurge is 0, and down otherwise. It can't be 0 if maxSurge is 0. Defaults to 20%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable can't be negative"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is the maximum number of pods that may exist in addition to replicas during the update. Value can be an absolute number (ex: 5)
	// or a percentage (ex: 10%), which is rounded up. It must be 0 with podUpdatePolicy InPlaceOnly, and counts as 0 while the update is
	// paused. Defaults to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge can't be negative"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// paused stops the update, but not scaling. Defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// podUpdatePolicy specifies how a pod is updated. ReCreate replaces it with a new one. InPlaceIfPossible updates it in place if only
	// images and metadata differ, and recreates it otherwise. InPlaceOnly updates it in place, and rejects changes of template that don't
	// allow this. Defaults to ReCreate.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`

	// priorityStrategy determines the order in which pods are updated, by their labels.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`

	// scatterStrategy selects pods that are spread evenly over the update. The combinations of key and value must be unique.
	// +optional
	// +listType=atomic
	ScatterStrategy []pods.UpdateScatterTerm `json:"scatterStrategy,omitempty"`

	// inPlaceUpdateStrategy configures in-place updates.
	// +optional
	InPlaceUpdateStrategy *pods.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// CloneSetStatus is the observed state of a CloneSet.
type CloneSetStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of active pods, that is, pods that are not being deleted and are not in phase Succeeded or Failed.
	// +required
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of active pods that are ready.
	// +required
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is the number of active pods that have been ready for minReadySeconds and are not held by a hook.
	// +required
	AvailableReplicas int32 `json:"availableReplicas"`

	// updatedReplicas is the number of active pods at updateRevision.
	// +required
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// updatedReadyReplicas is the number of active pods at updateRevision that are ready.
	// +required
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`

	// updatedAvailableReplicas is the number of active pods at updateRevision that are available.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`

	// expectedUpdatedReplicas is the number of pods that should be at updateRevision: replicas minus partition.
	// +optional
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`

	// updateRevision is the name of the ControllerRevision of spec.template.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// currentRevision is the name of the ControllerRevision that the pods are updated from. It becomes updateRevision when all pods are
	// updated.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// collisionCount is the number of times that the name of a new ControllerRevision was already taken. It is included in the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions are the latest observations of the CloneSet's state.
	// +optional
	// +listType=atomic
	Conditions []CloneSetCondition `json:"conditions,omitempty"`

	// labelSelector is spec.selector in string form, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// CloneSetConditionType is the type of a condition of a CloneSet.
type CloneSetConditionType string

// Conditions of a CloneSet.
const (
	// CloneSetFailedScale means that pods could not be created or deleted, or have been waiting for it too long.
	CloneSetFailedScale CloneSetConditionType = "FailedScale"
	// CloneSetFailedUpdate means that pods could not be updated, or have been waiting for it too long.
	CloneSetFailedUpdate CloneSetConditionType = "FailedUpdate"
	// CloneSetSelectorOverlap means that the selector matches pods of another owner. These pods are left alone.
	CloneSetSelectorOverlap CloneSetConditionType = "SelectorOverlap"
	// CloneSetPVCTerminating means that PVCs are being deleted while pods use them.
	CloneSetPVCTerminating CloneSetConditionType = "PVCTerminating"
	// CloneSetProgressing says whether the rollout is progressing, complete or overdue. It exists only with progressDeadlineSeconds.
	CloneSetProgressing CloneSetConditionType = "Progressing"
)

// Reasons for the condition Progressing.
const (
	// CloneSetReasonAvailable means that all pods are updated and available.
	CloneSetReasonAvailable = "CloneSetAvailable"
	// CloneSetReasonPaused means that the rollout is paused.
	CloneSetReasonPaused = "CloneSetPaused"
	// CloneSetReasonPartitionAvailable means that as many pods as the partition allows are updated and available.
	CloneSetReasonPartitionAvailable = "ProgressPartitionAvailable"
	// CloneSetReasonDeadlineExceeded means that the rollout has made no progress for progressDeadlineSeconds.
	CloneSetReasonDeadlineExceeded = "ProgressDeadlineExceeded"
	// CloneSetReasonUpdated means that the rollout is in progress.
	CloneSetReasonUpdated = "CloneSetUpdated"
)

// Reasons for the conditions FailedScale, FailedUpdate, SelectorOverlap and PVCTerminating, in addition to the reasons why pods wait.
const (
	// CloneSetReasonWriteFailed (FailedScale, FailedUpdate) means that the apiserver rejected a write. The message is its response.
	CloneSetReasonWriteFailed = "WriteFailed"
	// CloneSetReasonInvalidSpec (FailedUpdate) means that the spec contains numbers that can't be resolved.
	CloneSetReasonInvalidSpec = "InvalidSpec"
	// CloneSetReasonNotInPlace (FailedUpdate) means that pods can't be updated in place, and nothing else is allowed.
	CloneSetReasonNotInPlace = "NotInPlace"
	// CloneSetReasonUpdateStalled (FailedUpdate) means that containers don't follow an in-place update.
	CloneSetReasonUpdateStalled = "UpdateStalled"
	// CloneSetReasonPodsOfOthers (SelectorOverlap) means that pods that the selector matches have another owner, or are orphans that can't be
	// adopted.
	CloneSetReasonPodsOfOthers = "PodsOfOthers"
	// CloneSetReasonPodsRun (PVCTerminating) means that the pods keep running until they are deleted or recreated.
	CloneSetReasonPodsRun = "PodsRun"
)

// CloneSetCondition describes one aspect of the state of a CloneSet.
type CloneSetCondition struct {
	// type is the type of the condition.
	// +required
	Type CloneSetConditionType `json:"type"`

	// status is the status of the condition: True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// lastUpdateTime is the last time at which status or reason changed. For Progressing, while a rollout is in progress or overdue, it is the
	// time at which the rollout last made progress.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`

	// lastTransitionTime is the last time at which the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is a CamelCase word that identifies the cause.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is a human-readable explanation.
	// +optional
	Message string `json:"message,omitempty"`
}

// CloneSet runs a number of identical pods without fixed names. It updates them in place if only images or metadata change, in steps if
// configured, and can delete specific pods first.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=clone
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="UPDATED_READY",type=integer,JSONPath=`.status.updatedReadyReplicas`
// +kubebuilder:printcolumn:name="UPDATED_AVAILABLE",type=integer,JSONPath=`.status.updatedAvailableReplicas`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].name`
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`
// +kubebuilder:printcolumn:name="SELECTOR",type=string,priority=1,JSONPath=`.status.labelSelector`
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || self.spec.selector == oldSelf.spec.selector",fieldPath=".spec.selector",message="selector can't be changed: make a new CloneSet"
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the CloneSet.
	// +optional
	Spec CloneSetSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status CloneSetStatus `json:"status,omitempty"`
}

// CloneSetList is a list of CloneSet.
//
// +kubebuilder:object:root=true
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CloneSet `json:"items"`
}
