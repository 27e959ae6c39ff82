package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// DaemonSetSpec is the desired state of a DaemonSet.
type DaemonSetSpec struct {
	// selector selects the pods. It must not be empty and must match the labels of template; it can't be changed.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template describes the pod to create on each node (a PodTemplateSpec). Its restartPolicy must be Always. Its nodeSelector,
	// affinity and tolerations say which nodes fit. Changing it makes a new revision, which is rolled out according to
	// updateStrategy.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// updateStrategy is how pods are updated to the revision of template.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.rollingUpdate.rollingUpdateType) || self.rollingUpdate.rollingUpdateType != 'Surging'",fieldPath=".rollingUpdate.rollingUpdateType",message="Surging is a type of v1alpha1: use rollingUpdateType Standard with maxSurge"
	UpdateStrategy DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// scaleStrategy is how pods are created on nodes that have none.
	// +optional
	ScaleStrategy *DaemonSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// minReadySeconds is for how long a pod must be ready to count as available. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// burstReplicas is how many pods are created, and how many are deleted or updated in place, before the result is
	// observed: a number or a percentage of the nodes that fit, rounded down. Default 250.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="burstReplicas can't be negative: leave it out for 250"
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// lifecycle holds pods before deletion.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.inPlaceUpdate)",fieldPath=".inPlaceUpdate",message="a DaemonSet has no inPlaceUpdate hook: remove it; preDelete holds pods that are recreated"
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// DaemonSetScaleStrategy is how a DaemonSet creates pods on nodes that have none.
type DaemonSetScaleStrategy struct {
	// partitionedScaling applies the partition of the rolling update to new pods too: nodes within the partition get no
	// pod, so that a new DaemonSet is rolled out step by step. Default false. In v1alpha1 it is the annotation
	// daemonset.kruise.io/progressive-create-pod: "true".
	// +optional
	PartitionedScaling bool `json:"partitionedScaling,omitempty"`
}

// DaemonSetUpdateStrategyType is who starts the update of a pod.
//
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;""
type DaemonSetUpdateStrategyType string

// Types of DaemonSetUpdateStrategy.
const (
	// DaemonSetRollingUpdate: the controller updates pods within the bounds of rollingUpdate.
	DaemonSetRollingUpdate DaemonSetUpdateStrategyType = "RollingUpdate"
	// DaemonSetOnDelete: a pod gets the new revision when a user has deleted the old one.
	DaemonSetOnDelete DaemonSetUpdateStrategyType = "OnDelete"
)

// DaemonSetUpdateStrategy is how a DaemonSet's pods are updated to a new revision.
type DaemonSetUpdateStrategy struct {
	// type is RollingUpdate (default) or OnDelete.
	// +optional
	Type DaemonSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate tunes the type RollingUpdate; it has no effect with OnDelete.
	// +optional
	RollingUpdate *DaemonSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// DaemonSetRollingUpdateType is how a pod is updated to a new revision.
//
// +kubebuilder:validation:Enum=Standard;InPlaceIfPossible;Surging;""
type DaemonSetRollingUpdateType string

// Types of a rolling update.
const (
	// DaemonSetStandard: the pod is deleted and another one is created; with maxSurge the other way round.
	DaemonSetStandard DaemonSetRollingUpdateType = "Standard"
	// DaemonSetInPlaceIfPossible: the pod is changed in place if only images and metadata differ, else recreated.
	DaemonSetInPlaceIfPossible DaemonSetRollingUpdateType = "InPlaceIfPossible"
	// DaemonSetSurging is Standard with maxSurge 1 unless it is set. Only in v1alpha1.
	DaemonSetSurging DaemonSetRollingUpdateType = "Surging"
)

// DaemonSetRollingUpdateStrategy tunes a rolling update.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%' || !has(self.maxUnavailable) || self.maxUnavailable == 0 || self.maxUnavailable == '0%'",fieldPath=".maxSurge",message="maxSurge and maxUnavailable can't both be above 0: a node's pod is replaced in one way, set one of them to 0"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || (self.maxUnavailable != 0 && self.maxUnavailable != '0%') || (has(self.maxSurge) && (self.maxSurge != 0 && self.maxSurge != '0%')) || (!has(self.maxSurge) && has(self.rollingUpdateType) && self.rollingUpdateType == 'Surging')",fieldPath=".maxUnavailable",message="with maxUnavailable 0 and no maxSurge no pod can be updated: raise one of them, or use paused to stop the update"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdateType) || self.rollingUpdateType != 'InPlaceIfPossible' || !has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%'",fieldPath=".maxSurge",message="rollingUpdateType InPlaceIfPossible makes no second pod on a node: set maxSurge to 0, or use Standard"
type DaemonSetRollingUpdateStrategy struct {
	// rollingUpdateType is Standard (default) or InPlaceIfPossible; in v1alpha1 also Surging.
	// +optional
	Type DaemonSetRollingUpdateType `json:"rollingUpdateType,omitempty"`

	// maxUnavailable is on how many nodes the pod may be unavailable because of the update: a number or a percentage of the
	// nodes that fit, rounded up. Default 1, or 0 with a maxSurge above 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable can't be negative"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is on how many nodes there may be a new pod beside the old one, which goes when the new one is available: a
	// number or a percentage of the nodes that fit, rounded up. Default 0. Pods that use ports of the node can't surge.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge can't be negative"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// selector narrows the update to nodes that have these labels. Unset: all nodes.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// partition is how many pods stay at the old revision: a number or a percentage of the nodes that fit, rounded down.
	// Default 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="partition can't be negative"
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// paused stops the update; pods are still created and deleted as nodes come and go. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// DaemonSetStatus is the observed state of a DaemonSet. If a node has several pods, the oldest one counts.
type DaemonSetStatus struct {
	// observedGeneration is the metadata.generation that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// desiredNumberScheduled is the number of nodes that fit: each should have a pod.
	// +required
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`

	// currentNumberScheduled is the number of those that have a pod.
	// +required
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`

	// numberMisscheduled is the number of nodes that have a pod and do not fit.
	// +required
	NumberMisscheduled int32 `json:"numberMisscheduled"`

	// numberReady is the number of nodes that fit and whose pod is ready.
	// +required
	NumberReady int32 `json:"numberReady"`

	// numberAvailable is the number of nodes that fit and whose pod was ready for minReadySeconds.
	// +optional
	NumberAvailable int32 `json:"numberAvailable,omitempty"`

	// numberUnavailable is desiredNumberScheduled less numberAvailable.
	// +optional
	NumberUnavailable int32 `json:"numberUnavailable,omitempty"`

	// updatedNumberScheduled is the number of nodes that fit and whose pod is at updateRevision.
	// +required
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`

	// updateRevision is the hash in the name of the ControllerRevision of spec.template.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// collisionCount is how often the name of a new ControllerRevision was taken; it goes into the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions are the latest observations of the DaemonSet's state.
	// +optional
	// +listType=atomic
	Conditions []WorkloadCondition `json:"conditions,omitempty"`
}

// DaemonSet runs one pod on each node that fits. It updates them in place where only images or metadata change, or with a
// second pod beside the old one, on selected nodes first if asked to.
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
