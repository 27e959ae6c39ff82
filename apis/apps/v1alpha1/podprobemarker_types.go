package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodProbeMarkerSpec is the desired state of a PodProbeMarker.
//
// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",message="selector can't be changed: pods that it no longer selects would keep what the probes have written. Make another PodProbeMarker"
type PodProbeMarkerSpec struct {
	// selector selects the pods of the namespace that are probed. It may not be empty, and can't be changed.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// probes are what is probed in each pod.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +listType=map
	// +listMapKey=name
	Probes []PodContainerProbe `json:"probes"`
}

// PodContainerProbe is a probe of one container.
type PodContainerProbe struct {
	// name is the name of the probe. It may not contain '#'.
	// +required
	Name string `json:"name"`

	// containerName is the container that is probed, or an init container that keeps running.
	// +required
	ContainerName string `json:"containerName"`

	// probe says how: one of exec, httpGet, tcpSocket and grpc. Numbers below 1 act as 1, also failureThreshold.
	// +required
	Probe corev1.Probe `json:"probe"`

	// markerPolicy are the labels and annotations that the pod has in each state.
	// +optional
	// +listType=map
	// +listMapKey=state
	MarkerPolicy []ProbeMarkerPolicy `json:"markerPolicy,omitempty"`

	// podConditionType is the type of the pod condition that has the result: True for Succeeded, False for anything else.
	// +optional
	PodConditionType string `json:"podConditionType,omitempty"`
}

// ProbeMarkerPolicy are labels and annotations that pods have while a probe is in a state. Those of the other state are removed.
type ProbeMarkerPolicy struct {
	// state is Succeeded or Failed.
	// +required
	// +kubebuilder:validation:Enum=Succeeded;Failed
	State ProbeState `json:"state"`

	// labels are the labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are the annotations.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ProbeState is what a probe has found.
type ProbeState string

// States of probes.
const (
	// ProbeSucceeded: the last successThreshold probes have succeeded.
	ProbeSucceeded ProbeState = "Succeeded"
	// ProbeFailed: the last failureThreshold probes have failed, or the container does not run.
	ProbeFailed ProbeState = "Failed"
	// ProbeUnknown: the container has been started, and was not probed yet.
	ProbeUnknown ProbeState = "Unknown"
)

// PodProbeMarkerStatus is the most recently observed state of a PodProbeMarker.
type PodProbeMarkerStatus struct {
	// observedGeneration is the generation that the status is about.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`

	// matchedPods is how many pods are selected that are scheduled, have been initialized and have not ended.
	// +optional
	MatchedPods int64 `json:"matchedPods,omitempty"`

	// conditions are the current conditions: Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodProbeMarker has containers of pods probed, and writes the results to the pods: as a condition, labels and annotations.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type PodProbeMarker struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the PodProbeMarker.
	// +optional
	Spec PodProbeMarkerSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status PodProbeMarkerStatus `json:"status,omitempty"`
}

// PodProbeMarkerList is a list of PodProbeMarker.
//
// +kubebuilder:object:root=true
type PodProbeMarkerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodProbeMarker `json:"items"`
}
