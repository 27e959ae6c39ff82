package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadConditionType is the type of a condition of a StatefulSet or DaemonSet.
type WorkloadConditionType string

// Conditions of a StatefulSet or DaemonSet in addition to Ready, Reconciling and Stalled. Each is present only while it is True.
const (
	// WorkloadFailedCreatePod means that pods or their PVCs could not be created or deleted, or have been waiting for it too long.
	WorkloadFailedCreatePod WorkloadConditionType = "FailedCreatePod"
	// WorkloadFailedUpdatePod means that pods or their PVCs could not be updated, or have been waiting for it too long.
	WorkloadFailedUpdatePod WorkloadConditionType = "FailedUpdatePod"
	// WorkloadSelectorOverlap means that the selector matches pods of another owner. These pods are left alone.
	WorkloadSelectorOverlap WorkloadConditionType = "SelectorOverlap"
	// WorkloadPVCTerminating means that PVCs of a StatefulSet are being deleted while pods use them.
	WorkloadPVCTerminating WorkloadConditionType = "PVCTerminating"
)

// WorkloadCondition describes one aspect of the state of a StatefulSet or DaemonSet.
type WorkloadCondition struct {
	// type is the type of the condition.
	// +required
	Type WorkloadConditionType `json:"type"`

	// status is the status of the condition: True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

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
