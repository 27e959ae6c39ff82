package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadConditionType names a condition of a StatefulSet or DaemonSet.
type WorkloadConditionType string

// Conditions of a StatefulSet or DaemonSet. Each is there while it is True.
const (
	// WorkloadFailedCreatePod: pods or their PVCs could not be made or deleted, or have waited for it for too long.
	WorkloadFailedCreatePod WorkloadConditionType = "FailedCreatePod"
	// WorkloadFailedUpdatePod: pods or their PVCs could not be updated, or have waited for it for too long.
	WorkloadFailedUpdatePod WorkloadConditionType = "FailedUpdatePod"
	// WorkloadSelectorOverlap: the selector selects pods of somebody else, which are left alone.
	WorkloadSelectorOverlap WorkloadConditionType = "SelectorOverlap"
)

// WorkloadCondition is one observation of the state of a StatefulSet or DaemonSet.
type WorkloadCondition struct {
	// type names the condition.
	// +required
	Type WorkloadConditionType `json:"type"`

	// status is True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// lastTransitionTime is when status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is why, in one CamelCase word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is why, for people.
	// +optional
	Message string `json:"message,omitempty"`
}
