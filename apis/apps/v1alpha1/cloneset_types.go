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

	// template describes the pods to create (a PodTemplateSpec). Its restartPolicy must be Always. Changing it makes a new
	// revision, which is rolled out according to updateStrategy.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the PVCs that each pod gets (a list of PersistentVolumeClaim), named
	// <template>-<cloneset>-<instance id>. Changing them makes no new revision: it applies to pods created from then on.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// scaleStrategy is how pods are added and removed.
	// +optional
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// updateStrategy is how pods are updated to the revision of template.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'RollingUpdate'",message="type is ReCreate, InPlaceIfPossible, InPlaceOnly or OnDelete: RollingUpdate is a type of v1beta1",fieldPath=".type"
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// minReadySeconds is how long a pod must be ready before it counts as available, in seconds. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is for how long a rollout may make no progress before the condition Progressing turns False. It
	// must be above minReadySeconds. Unset, or 2147483647: there is no deadline and no such condition.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// lifecycle configures hooks that hold pods before deletion, before and after an in-place update, and after creation.
	// +optional
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// CloneSetScaleStrategy is how a CloneSet adds and removes pods. Instead of excludePreparingDelete of v1beta1, there is the
// label keys.CloneSetExcludePreparingDelete on the CloneSet.
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

	// disablePVCReuse deletes the PVCs of a pod that was lost (its node is gone, or it was evicted) with the pod. Default
	// false: they are kept for the pod that takes its place. It is the opposite of enablePVCReuse in v1beta1.
	// +optional
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType is how a pod is updated to a new revision.
//
// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly;OnDelete;RollingUpdate;""
type CloneSetUpdateStrategyType string

// Types of CloneSetUpdateStrategy.
const (
	// CloneSetReCreate: the pod is deleted and another one is created.
	CloneSetReCreate CloneSetUpdateStrategyType = "ReCreate"
	// CloneSetInPlaceIfPossible: the pod is changed in place if only images and metadata differ, else recreated.
	CloneSetInPlaceIfPossible CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// CloneSetInPlaceOnly: the pod is changed in place; a change of template that does not allow it is refused.
	CloneSetInPlaceOnly CloneSetUpdateStrategyType = "InPlaceOnly"
	// CloneSetOnDelete: a pod gets the new revision when a user has deleted the old one.
	CloneSetOnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy is how a CloneSet's pods are updated to a new revision. Percentages are of replicas.
type CloneSetUpdateStrategy struct {
	// type is ReCreate (default), InPlaceIfPossible, InPlaceOnly or OnDelete; in the template of a UnitedDeployment
	// also RollingUpdate, as in v1beta1. The other fields have no effect with OnDelete.
	// +optional
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`

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
	// Default 0. It must be 0 with type InPlaceOnly, and counts as 0 while paused.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge can't be negative"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// paused stops the update, but not scaling. Defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// priorityStrategy orders the pods for the update by their labels.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`

	// scatterStrategy names pods that are spread evenly over the sequence of the update. Pairs of key and value may not repeat.
	// +optional
	// +listType=atomic
	ScatterStrategy []pods.UpdateScatterTerm `json:"scatterStrategy,omitempty"`

	// inPlaceUpdateStrategy configures in-place updates. In this version the annotations apps.kruise.io/image-predownload-* configure the
	// pre-download of images, and take precedence over the fields here.
	// +optional
	InPlaceUpdateStrategy *pods.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// CloneSet runs a number of equal pods without fixed names. It updates them in place where only images or metadata
// change, in steps if asked to, and deletes chosen pods first.
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
