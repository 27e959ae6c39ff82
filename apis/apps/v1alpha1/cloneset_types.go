package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
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
	// <template>-<cloneset>-<instance id>. A change doesn't create a new revision: it applies to pods that are created afterwards.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// scaleStrategy configures how pods are added and removed.
	// +optional
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// updateStrategy configures how pods are updated to the revision of template.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'RollingUpdate'",message="type is ReCreate, InPlaceIfPossible, InPlaceOnly or OnDelete: RollingUpdate is a type of v1beta1",fieldPath=".type"
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

// CloneSetScaleStrategy configures how a CloneSet adds and removes pods. The label keys.CloneSetExcludePreparingDelete on the CloneSet
// takes the place of excludePreparingDelete in v1beta1.
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

	// disablePVCReuse deletes the PVCs of a pod that was lost, because it was evicted or its node is gone, together with the pod. If false,
	// they are kept for the pod that replaces it. It is the opposite of enablePVCReuse in v1beta1. Defaults to false.
	// +optional
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType specifies how a pod is updated to a new revision.
//
// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly;OnDelete;RollingUpdate;""
type CloneSetUpdateStrategyType string

// Types of CloneSetUpdateStrategy.
const (
	// CloneSetReCreate means that the pod is deleted and a new one is created.
	CloneSetReCreate CloneSetUpdateStrategyType = "ReCreate"
	// CloneSetInPlaceIfPossible means that the pod is updated in place if only images and metadata differ, and recreated otherwise.
	CloneSetInPlaceIfPossible CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// CloneSetInPlaceOnly means that the pod is updated in place. Changes of the template that don't allow this are rejected.
	CloneSetInPlaceOnly CloneSetUpdateStrategyType = "InPlaceOnly"
	// CloneSetOnDelete means that a pod is replaced by one with the new revision only when a user deletes it.
	CloneSetOnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy configures how the pods of a CloneSet are updated to a new revision. Percentages refer to replicas.
type CloneSetUpdateStrategy struct {
	// type specifies how a pod is updated. ReCreate replaces it with a new one. InPlaceIfPossible updates it in place if only images and
	// metadata differ, and recreates it otherwise. InPlaceOnly updates it in place, and rejects changes of template that don't allow this.
	// With OnDelete, pods are updated only when a user deletes them, and the other fields have no effect. In the template of a
	// UnitedDeployment, RollingUpdate is also allowed, as in v1beta1. Defaults to ReCreate.
	// +optional
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`

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
	// or a percentage (ex: 10%), which is rounded up. It must be 0 with type InPlaceOnly, and counts as 0 while the update is paused. Defaults
	// to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge can't be negative"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// paused stops the update, but not scaling. Defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// priorityStrategy determines the order in which pods are updated, by their labels.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`

	// scatterStrategy selects pods that are spread evenly over the update. The combinations of key and value must be unique.
	// +optional
	// +listType=atomic
	ScatterStrategy []pods.UpdateScatterTerm `json:"scatterStrategy,omitempty"`

	// inPlaceUpdateStrategy configures in-place updates. In this version the annotations apps.kruise.io/image-predownload-* configure the
	// pre-download of images, and take precedence over the fields here.
	// +optional
	InPlaceUpdateStrategy *pods.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// CloneSet runs a number of identical pods without fixed names. It updates them in place if only images or metadata change, in steps if
// configured, and can delete specific pods first.
//
// +kubebuilder:object:root=true
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
	Status appsv1beta1.CloneSetStatus `json:"status,omitempty"`
}

// CloneSetList is a list of CloneSet.
//
// +kubebuilder:object:root=true
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CloneSet `json:"items"`
}
