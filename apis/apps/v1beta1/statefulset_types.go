package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// StatefulSetSpec is what a StatefulSet of apps.kruise.io is to be. It is here as the template of a UnitedDeployment's
// subsets.
type StatefulSetSpec struct {
	// replicas is the number of pods wanted. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the pods. It must not be empty and must match the labels of template.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template is the pod to make (a PodTemplateSpec). Its restartPolicy must be Always.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the claims that each pod gets (a list of PersistentVolumeClaim), named
	// <claim>-<statefulset>-<ordinal>.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// volumeClaimUpdateStrategy says when claims follow a change of volumeClaimTemplates.
	// +optional
	VolumeClaimUpdateStrategy StatefulSetVolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitempty"`

	// serviceName is the headless Service that gives the pods their names; it becomes their subdomain.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// podManagementPolicy is OrderedReady (default: one pod after another) or Parallel.
	// +optional
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`

	// updateStrategy says how pods come to the revision of template.
	// +optional
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// scaleStrategy bounds the creation and deletion of pods.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// reserveOrdinals are ordinals to leave out: numbers, or ranges "3-7" with both ends included.
	// +optional
	// +listType=atomic
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`

	// ordinals says where the numbering of pods begins.
	// +optional
	Ordinals *appsv1.StatefulSetOrdinals `json:"ordinals,omitempty"`

	// persistentVolumeClaimRetentionPolicy says whether claims are kept (Retain, default) or deleted (Delete) when the
	// StatefulSet is deleted and when it is scaled in.
	// +optional
	PersistentVolumeClaimRetentionPolicy *StatefulSetClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// lifecycle holds pods before deletion, around an in-place update and after creation.
	// +optional
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// StatefulSetVolumeClaimUpdateStrategy says when claims follow a change of volumeClaimTemplates.
type StatefulSetVolumeClaimUpdateStrategy struct {
	// type is OnDelete (default) or OnPodRollingUpdate.
	// +optional
	Type string `json:"type,omitempty"`
}

// StatefulSetClaimRetentionPolicy says what becomes of claims whose pod is gone for good.
type StatefulSetClaimRetentionPolicy struct {
	// whenDeleted is Retain (default) or Delete: what becomes of the claims when the StatefulSet is deleted.
	// +optional
	WhenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenDeleted,omitempty"`

	// whenScaled is Retain (default) or Delete: what becomes of the claims of pods that are scaled in.
	// +optional
	WhenScaled appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
}

// StatefulSetScaleStrategy bounds the creation and deletion of pods.
type StatefulSetScaleStrategy struct {
	// maxUnavailable is how many pods may be unavailable while scaling, with podManagementPolicy Parallel: a number or a
	// percentage of replicas, rounded down, at least 1. Unset: not bounded.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// StatefulSetUpdateStrategy says how a StatefulSet's pods come to a new revision.
type StatefulSetUpdateStrategy struct {
	// type is RollingUpdate (default) or OnDelete.
	// +optional
	Type appsv1.StatefulSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate tunes the type RollingUpdate.
	// +optional
	RollingUpdate *StatefulSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// StatefulSetRollingUpdateStrategy tunes a rolling update.
type StatefulSetRollingUpdateStrategy struct {
	// partition is how many pods stay at the old revision, those with the lowest ordinals. Default 0.
	// +optional
	Partition *int32 `json:"partition,omitempty"`

	// maxUnavailable is how many pods may be unavailable because of the update: a number or a percentage of replicas,
	// rounded down, at least 1. Default 1; anything else needs podManagementPolicy Parallel.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// podUpdatePolicy is ReCreate (default), InPlaceIfPossible or InPlaceOnly.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`

	// paused stops the update. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// unorderedUpdate lets pods be updated in another order than that of their ordinals. Only with Parallel.
	// +optional
	UnorderedUpdate *StatefulSetUnorderedUpdate `json:"unorderedUpdate,omitempty"`

	// inPlaceUpdateStrategy tunes updates in place.
	// +optional
	InPlaceUpdateStrategy *pods.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`

	// minReadySeconds is for how long a pod must be ready to count as available: 0 to 300. Default 0.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// StatefulSetUnorderedUpdate orders pods for an update by their labels.
type StatefulSetUnorderedUpdate struct {
	// priorityStrategy is that order.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
}
