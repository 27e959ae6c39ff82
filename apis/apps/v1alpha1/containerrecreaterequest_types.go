package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// ContainerRecreateRequestStatus is the most recently observed state of a ContainerRecreateRequest. In this version, the container statuses
// that the pod reports, and the time since when it is not ready, are in annotations.
type ContainerRecreateRequestStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is the phase of the request: Pending, Recreating or Completed. It is not set until the node daemon has responded.
	// +optional
	Phase appsv1beta1.ContainerRecreateRequestPhase `json:"phase,omitempty"`

	// completionTime is the time at which the request was completed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message says why the request is complete, or what it is waiting for.
	// +optional
	Message string `json:"message,omitempty"`

	// containerRecreateStates are the states of the containers, in the order of the spec.
	// +optional
	// +listType=atomic
	ContainerRecreateStates []appsv1beta1.ContainerRecreateRequestState `json:"containerRecreateStates,omitempty"`

	// conditions are the conditions of v1beta1. PreRecreateGrace is not listed while it is True; it is in an annotation then.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ContainerRecreateRequest restarts containers of a pod once. The pod and its other containers keep running.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=crr
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="POD",type=string,JSONPath=`.spec.podName`
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.metadata.labels.crr\.apps\.kruise\.io/node-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ContainerRecreateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which containers of which pod are restarted.
	// +optional
	Spec appsv1beta1.ContainerRecreateRequestSpec `json:"spec,omitempty"`

	// status is the most recently observed state. It is not set until the node daemon has seen the request.
	// +optional
	Status ContainerRecreateRequestStatus `json:"status,omitzero"`
}

// ContainerRecreateRequestList is a list of ContainerRecreateRequest.
//
// +kubebuilder:object:root=true
type ContainerRecreateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ContainerRecreateRequest `json:"items"`
}
