package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadConditionType is the type of a condition of a StatefulSet or DaemonSet.
type WorkloadConditionType string

// Conditions of a StatefulSet or DaemonSet, besides Ready, Reconciling and Stalled. Each is there while it is True.
const (
	// WorkloadFailedCreatePod: pods or their PVCs could not be created or deleted, or have waited for it for too long.
	WorkloadFailedCreatePod WorkloadConditionType = "FailedCreatePod"
	// WorkloadFailedUpdatePod: pods or their PVCs could not be updated, or have waited for it for too long.
	WorkloadFailedUpdatePod WorkloadConditionType = "FailedUpdatePod"
	// WorkloadSelectorOverlap: the selector matches pods of another owner, which are left alone.
	WorkloadSelectorOverlap WorkloadConditionType = "SelectorOverlap"
	// WorkloadPVCTerminating: PVCs of a StatefulSet are being deleted while pods run on them.
	WorkloadPVCTerminating WorkloadConditionType = "PVCTerminating"
)

// WorkloadCondition is one observation of the state of a StatefulSet or DaemonSet.
type WorkloadCondition struct {
	// type is the type of the condition.
	// +required
	Type WorkloadConditionType `json:"type"`

	// status is True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

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
