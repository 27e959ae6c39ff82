package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// DaemonSetSpec is the desired state of a DaemonSet.
type DaemonSetSpec struct {
	// selector selects the pods. It must not be empty and must match the labels of template. It is immutable.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template describes the pod to create on each node, as a PodTemplateSpec. Its restartPolicy must be Always. Its nodeSelector, affinity
	// and tolerations determine the eligible nodes. Changing it creates a new revision, which is rolled out according to updateStrategy.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// updateStrategy configures how pods are updated to the revision of template.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.rollingUpdate.rollingUpdateType) || self.rollingUpdate.rollingUpdateType != 'Surging'",fieldPath=".rollingUpdate.rollingUpdateType",message="Surging is a type of v1alpha1: use rollingUpdateType Standard with maxSurge"
	UpdateStrategy DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// scaleStrategy configures how pods are created on nodes that don't have one.
	// +optional
	ScaleStrategy *DaemonSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// minReadySeconds specifies how long a pod must be ready before it counts as available, in seconds. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// burstReplicas is the maximum number of pods that are created, and that are deleted or updated in place, before the result is observed.
	// Value can be an absolute number (ex: 5) or a percentage of the eligible nodes (ex: 10%), which is rounded down. Defaults to 250.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="burstReplicas can't be negative: leave it out for 250"
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// lifecycle configures hooks that hold pods before deletion. The inPlaceUpdate hook is not supported.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.inPlaceUpdate)",fieldPath=".inPlaceUpdate",message="a DaemonSet has no inPlaceUpdate hook: remove it; preDelete holds pods that are recreated"
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// DaemonSetScaleStrategy configures how a DaemonSet creates pods on nodes that don't have one.
type DaemonSetScaleStrategy struct {
	// partitionedScaling applies the partition of the rolling update to new pods too: nodes within the partition get no pod, so that a new
	// DaemonSet is rolled out step by step. In v1alpha1 it is the annotation daemonset.kruise.io/progressive-create-pod: "true". Defaults to
	// false.
	// +optional
	PartitionedScaling bool `json:"partitionedScaling,omitempty"`
}

// DaemonSetUpdateStrategyType specifies what triggers the update of a pod.
//
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
type DaemonSetUpdateStrategyType string

// Types of DaemonSetUpdateStrategy.
const (
	// DaemonSetRollingUpdate means that the controller updates pods within the limits of rollingUpdate.
	DaemonSetRollingUpdate DaemonSetUpdateStrategyType = "RollingUpdate"
	// DaemonSetOnDelete means that a pod is replaced by one with the new revision only when a user deletes it.
	DaemonSetOnDelete DaemonSetUpdateStrategyType = "OnDelete"
)

// DaemonSetUpdateStrategy configures how the pods of a DaemonSet are updated to a new revision.
type DaemonSetUpdateStrategy struct {
	// type is the type of the update: RollingUpdate or OnDelete. With OnDelete, pods are updated only when a user deletes them. Defaults to
	// RollingUpdate.
	// +optional
	Type DaemonSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate configures the type RollingUpdate. It has no effect with OnDelete.
	// +optional
	RollingUpdate *DaemonSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// DaemonSetRollingUpdateType specifies how a pod is updated to a new revision.
//
// +kubebuilder:validation:Enum=Standard;InPlaceIfPossible;Surging;""
type DaemonSetRollingUpdateType string

// Types of a rolling update.
const (
	// DaemonSetStandard means that the pod is deleted and a new one is created. With maxSurge, the new one is created first.
	DaemonSetStandard DaemonSetRollingUpdateType = "Standard"
	// DaemonSetInPlaceIfPossible means that the pod is updated in place if only images and metadata differ, and recreated otherwise.
	DaemonSetInPlaceIfPossible DaemonSetRollingUpdateType = "InPlaceIfPossible"
	// DaemonSetSurging is Standard with a maxSurge that defaults to 1. It exists only in v1alpha1.
	DaemonSetSurging DaemonSetRollingUpdateType = "Surging"
)

// DaemonSetRollingUpdateStrategy configures a rolling update.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%' || !has(self.maxUnavailable) || self.maxUnavailable == 0 || self.maxUnavailable == '0%'",fieldPath=".maxSurge",message="maxSurge and maxUnavailable can't both be above 0: a node's pod is replaced in one way, set one of them to 0"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || (self.maxUnavailable != 0 && self.maxUnavailable != '0%') || (has(self.maxSurge) && (self.maxSurge != 0 && self.maxSurge != '0%')) || (!has(self.maxSurge) && has(self.rollingUpdateType) && self.rollingUpdateType == 'Surging')",fieldPath=".maxUnavailable",message="with maxUnavailable 0 and no maxSurge no pod can be updated: raise one of them, or use paused to stop the update"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdateType) || self.rollingUpdateType != 'InPlaceIfPossible' || !has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%'",fieldPath=".maxSurge",message="rollingUpdateType InPlaceIfPossible makes no second pod on a node: set maxSurge to 0, or use Standard"
type DaemonSetRollingUpdateStrategy struct {
	// rollingUpdateType specifies how a pod is updated. Standard replaces it with a new one. InPlaceIfPossible updates it in place if only
	// images and metadata differ, and recreates it otherwise. In v1alpha1, Surging is Standard with a maxSurge that defaults to 1. Defaults to
	// Standard.
	// +optional
	Type DaemonSetRollingUpdateType `json:"rollingUpdateType,omitempty"`

	// maxUnavailable is the maximum number of nodes on which the pod may be unavailable because of the update. Value can be an absolute number
	// (ex: 5) or a percentage of the eligible nodes (ex: 10%), which is rounded up. Defaults to 1, or to 0 if maxSurge is above 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable can't be negative"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is the maximum number of nodes on which a new pod may run next to the old one, which is deleted when the new one is available.
	// Value can be an absolute number (ex: 5) or a percentage of the eligible nodes (ex: 10%), which is rounded up. It doesn't work for pods
	// that use host ports. Defaults to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge can't be negative"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// selector restricts the update to nodes with matching labels. If unset, all nodes are updated.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// partition is the number of pods that stay at the old revision. Value can be an absolute number (ex: 5) or a percentage of the eligible
	// nodes (ex: 10%), which is rounded down. Defaults to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="partition can't be negative"
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// paused stops the update. Pods are still created and deleted as nodes come and go. Defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// DaemonSetStatus is the observed state of a DaemonSet. If a node has several pods, only the oldest one counts.
type DaemonSetStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// desiredNumberScheduled is the number of eligible nodes. Each of them should have a pod.
	// +required
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`

	// currentNumberScheduled is the number of eligible nodes that have a pod.
	// +required
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`

	// numberMisscheduled is the number of nodes that have a pod but are not eligible.
	// +required
	NumberMisscheduled int32 `json:"numberMisscheduled"`

	// numberReady is the number of eligible nodes whose pod is ready.
	// +required
	NumberReady int32 `json:"numberReady"`

	// numberAvailable is the number of eligible nodes whose pod has been ready for minReadySeconds.
	// +optional
	NumberAvailable int32 `json:"numberAvailable,omitempty"`

	// numberUnavailable is desiredNumberScheduled minus numberAvailable.
	// +optional
	NumberUnavailable int32 `json:"numberUnavailable,omitempty"`

	// updatedNumberScheduled is the number of eligible nodes whose pod is at updateRevision.
	// +required
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`

	// updateRevision is the hash in the name of the ControllerRevision of spec.template.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// collisionCount is the number of times that the name of a new ControllerRevision was already taken. It is included in the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions are the latest observations of the DaemonSet's state.
	// +optional
	// +listType=atomic
	Conditions []WorkloadCondition `json:"conditions,omitempty"`
}

// DaemonSet runs one pod on each eligible node. It updates pods in place if only images or metadata change, or creates the new pod next to
// the old one. It can update selected nodes first.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=daemon;ads
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desiredNumberScheduled`
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=`.status.currentNumberScheduled`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.numberReady`
// +kubebuilder:printcolumn:name="UP-TO-DATE",type=integer,JSONPath=`.status.updatedNumberScheduled`
// +kubebuilder:printcolumn:name="AVAILABLE",type=integer,JSONPath=`.status.numberAvailable`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].name`
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || self.spec.selector == oldSelf.spec.selector",fieldPath=".spec.selector",message="selector can't be changed: make a new DaemonSet"
type DaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the DaemonSet.
	// +optional
	Spec DaemonSetSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status DaemonSetStatus `json:"status,omitempty"`
}

// DaemonSetList is a list of DaemonSet.
//
// +kubebuilder:object:root=true
type DaemonSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DaemonSet `json:"items"`
}
