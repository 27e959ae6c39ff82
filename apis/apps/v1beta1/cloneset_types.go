package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// CloneSetSpec is the desired state of a CloneSet.
type CloneSetSpec struct {
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
	// <template>-<cloneset>-<instance id>. A volume of a template's name replaces one of the same name in template. A change
	// makes no new revision: it applies to pods created from then on.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// scaleStrategy is how pods are added and removed.
	// +optional
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// updateStrategy is how pods are updated to the revision of template.
	// +optional
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// minReadySeconds is for how long a pod must be ready to count as available. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is for how long a rollout may make no progress before the condition Progressing turns False. It
	// must be above minReadySeconds. Unset, or 2147483647: there is no deadline and no such condition.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// lifecycle holds pods before deletion, around an in-place update and after creation.
	// +optional
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// CloneSetScaleStrategy is how a CloneSet adds and removes pods.
type CloneSetScaleStrategy struct {
	// podsToDelete are names of pods to delete first when replicas falls; with replicas unchanged they are replaced.
	// Names may not repeat. A name is removed from the list when its pod is gone.
	// +optional
	// +listType=atomic
	PodsToDelete []string `json:"podsToDelete,omitempty"`

	// maxUnavailable bounds the creation of pods while pods are unavailable: a number or a percentage of replicas,
	// rounded up. Unset: no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable can't be negative"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// enablePVCReuse keeps the PVCs of a pod that was lost (its node is gone, or it was evicted) for the pod that takes its
	// place. Default false: they are deleted with the pod. A CloneSet written in v1alpha1 has true unless it sets
	// disablePVCReuse.
	// +optional
	// +kubebuilder:default=false
	EnablePVCReuse bool `json:"enablePVCReuse,omitempty"`

	// excludePreparingDelete excludes pods that a preDelete hook holds from the count, so that replacements are created
	// at once. Default false.
	// +optional
	ExcludePreparingDelete bool `json:"excludePreparingDelete,omitempty"`
}

// CloneSetUpdateStrategyType is who starts the update of a pod.
//
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
type CloneSetUpdateStrategyType string

// Types of CloneSetUpdateStrategy.
const (
	// CloneSetRollingUpdate: the controller updates pods within the bounds of rollingUpdate.
	CloneSetRollingUpdate CloneSetUpdateStrategyType = "RollingUpdate"
	// CloneSetOnDelete: a pod gets the new revision when a user has deleted the old one.
	CloneSetOnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy is how a CloneSet's pods are updated to a new revision.
type CloneSetUpdateStrategy struct {
	// type is RollingUpdate (default) or OnDelete.
	// +optional
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate tunes the type RollingUpdate; it has no effect with OnDelete.
	// +optional
	RollingUpdate *CloneSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// PodUpdatePolicy is how a pod is updated to a new revision.
//
// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly;""
type PodUpdatePolicy string

// Policies of an update.
const (
	// PodReCreate: the pod is deleted and another one is created.
	PodReCreate PodUpdatePolicy = "ReCreate"
	// PodInPlaceIfPossible: the pod is changed in place if only images and metadata differ, else recreated.
	PodInPlaceIfPossible PodUpdatePolicy = "InPlaceIfPossible"
	// PodInPlaceOnly: the pod is changed in place; a change of template that does not allow it is refused.
	PodInPlaceOnly PodUpdatePolicy = "InPlaceOnly"
)

// CloneSetRollingUpdateStrategy tunes a rolling update. Percentages are of replicas.
type CloneSetRollingUpdateStrategy struct {
	// partition is how many pods stay at the old revision: a number or a percentage, rounded up. Default 0. A percentage
	// above 0% keeps at least one old pod, one below 100% updates at least one, if there are two pods or more.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="partition can't be negative"
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// maxUnavailable is how many pods may be unavailable because of the update: a number or a percentage, rounded up if
	// maxSurge is 0 and down otherwise. Default 20%. It may not be 0 together with maxSurge.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable can't be negative"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many pods may exist beyond replicas during the update: a number or a percentage, rounded up.
	// Default 0. It must be 0 with podUpdatePolicy InPlaceOnly, and counts as 0 while paused.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge can't be negative"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// paused stops the update, not scaling. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// podUpdatePolicy is ReCreate (default), InPlaceIfPossible or InPlaceOnly.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`

	// priorityStrategy orders the pods for the update by their labels.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`

	// scatterStrategy names pods that are spread evenly over the sequence of the update. Pairs of key and value may not repeat.
	// +optional
	// +listType=atomic
	ScatterStrategy []pods.UpdateScatterTerm `json:"scatterStrategy,omitempty"`

	// inPlaceUpdateStrategy tunes updates in place.
	// +optional
	InPlaceUpdateStrategy *pods.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// CloneSetStatus is the observed state of a CloneSet.
type CloneSetStatus struct {
	// observedGeneration is the metadata.generation that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of active pods: neither being deleted nor Succeeded or Failed.
	// +required
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of active pods that are ready.
	// +required
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is the number of active pods that were ready for minReadySeconds and are held by no hook.
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

	// expectedUpdatedReplicas is how many pods shall be at updateRevision: replicas less partition.
	// +optional
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`

	// updateRevision is the name of the ControllerRevision of spec.template.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// currentRevision is the name of the ControllerRevision that the pods are updated from. It becomes updateRevision
	// when all pods are updated.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// collisionCount is how often the name of a new ControllerRevision was taken; it goes into the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions are the latest observations of the CloneSet's state.
	// +optional
	// +listType=atomic
	Conditions []CloneSetCondition `json:"conditions,omitempty"`

	// labelSelector is spec.selector as a string, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// CloneSetConditionType is the type of a condition of a CloneSet.
type CloneSetConditionType string

// Conditions of a CloneSet.
const (
	// CloneSetFailedScale: pods could not be created or deleted, or have waited for it for too long.
	CloneSetFailedScale CloneSetConditionType = "FailedScale"
	// CloneSetFailedUpdate: pods could not be updated, or have waited for it for too long.
	CloneSetFailedUpdate CloneSetConditionType = "FailedUpdate"
	// CloneSetSelectorOverlap: the selector matches pods of another owner, which are left alone.
	CloneSetSelectorOverlap CloneSetConditionType = "SelectorOverlap"
	// CloneSetPVCTerminating: PVCs are being deleted while pods run on them.
	CloneSetPVCTerminating CloneSetConditionType = "PVCTerminating"
	// CloneSetProgressing: the rollout advances, is complete or is overdue; only with progressDeadlineSeconds.
	CloneSetProgressing CloneSetConditionType = "Progressing"
)

// Reasons of the condition Progressing.
const (
	// CloneSetReasonAvailable: all pods are updated and available.
	CloneSetReasonAvailable = "CloneSetAvailable"
	// CloneSetReasonPaused: the rollout is paused.
	CloneSetReasonPaused = "CloneSetPaused"
	// CloneSetReasonPartitionAvailable: as many pods as partition allows are updated and available.
	CloneSetReasonPartitionAvailable = "ProgressPartitionAvailable"
	// CloneSetReasonDeadlineExceeded: the rollout has made no progress for progressDeadlineSeconds.
	CloneSetReasonDeadlineExceeded = "ProgressDeadlineExceeded"
	// CloneSetReasonUpdated: the rollout is under way.
	CloneSetReasonUpdated = "CloneSetUpdated"
)

// Reasons of the conditions FailedScale, FailedUpdate, SelectorOverlap and PVCTerminating, besides the reasons for which pods wait.
const (
	// CloneSetReasonWriteFailed (FailedScale, FailedUpdate): the apiserver refused a write; the message is its answer.
	CloneSetReasonWriteFailed = "WriteFailed"
	// CloneSetReasonInvalidSpec (FailedUpdate): the spec has numbers that can't be resolved.
	CloneSetReasonInvalidSpec = "InvalidSpec"
	// CloneSetReasonNotInPlace (FailedUpdate): pods can't be updated in place, and nothing else is allowed.
	CloneSetReasonNotInPlace = "NotInPlace"
	// CloneSetReasonUpdateStalled (FailedUpdate): containers do not follow an update in place.
	CloneSetReasonUpdateStalled = "UpdateStalled"
	// CloneSetReasonPodsOfOthers (SelectorOverlap): pods that the selector matches have another owner, or are
	// orphans that may not be adopted.
	CloneSetReasonPodsOfOthers = "PodsOfOthers"
	// CloneSetReasonPodsRun (PVCTerminating): the pods go on until they are deleted or recreated.
	CloneSetReasonPodsRun = "PodsRun"
)

// CloneSetCondition is one observation of a CloneSet's state.
type CloneSetCondition struct {
	// type is the type of the condition.
	// +required
	Type CloneSetConditionType `json:"type"`

	// status is True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// lastUpdateTime is when status or reason last changed. Of Progressing, while a rollout is under way or late, it is
	// when the rollout last made progress.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`

	// lastTransitionTime is when status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is a CamelCase word for the cause.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is a human-readable explanation.
	// +optional
	Message string `json:"message,omitempty"`
}

// CloneSet runs a number of equal pods without fixed names. It updates them in place where only images or metadata
// change, in steps if asked to, and deletes chosen pods first.
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
