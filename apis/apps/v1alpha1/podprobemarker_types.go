package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodProbeMarkerSpec is the desired state of a PodProbeMarker.
//
// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",message="selector can't be changed: pods that it no longer selects would keep what the probes have written. Make another PodProbeMarker"
type PodProbeMarkerSpec struct {
	// selector selects the pods in the namespace to probe. It must not be empty. It is immutable.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// probes are the probes to run in each pod.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +listType=map
	// +listMapKey=name
	Probes []PodContainerProbe `json:"probes"`
}

// PodContainerProbe is a probe of one container.
type PodContainerProbe struct {
	// name is the name of the probe. It must not contain '#'.
	// +required
	Name string `json:"name"`

	// containerName is the name of the container to probe. It can be an init container that keeps running.
	// +required
	ContainerName string `json:"containerName"`

	// probe is the probe to run. It has one of exec, httpGet, tcpSocket and grpc. Numbers below 1 count as 1, including failureThreshold.
	// +required
	Probe corev1.Probe `json:"probe"`

	// markerPolicy lists the labels and annotations that are set on the pod in each state.
	// +optional
	// +listType=map
	// +listMapKey=state
	MarkerPolicy []ProbeMarkerPolicy `json:"markerPolicy,omitempty"`

	// podConditionType is the type of the pod condition that shows the result. It is True if the state is Succeeded, and False otherwise.
	// +optional
	PodConditionType string `json:"podConditionType,omitempty"`
}

// ProbeMarkerPolicy contains the labels and annotations that are set on pods while a probe is in a state. Those of the other state are
// removed.
type ProbeMarkerPolicy struct {
	// state is the state of the probe: Succeeded or Failed.
	// +required
	// +kubebuilder:validation:Enum=Succeeded;Failed
	State ProbeState `json:"state"`

	// labels are the labels to set.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are the annotations to set.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ProbeState is the result of a probe.
type ProbeState string

// States of probes.
const (
	// ProbeSucceeded means that the last successThreshold probes succeeded.
	ProbeSucceeded ProbeState = "Succeeded"
	// ProbeFailed means that the last failureThreshold probes failed, or that the container isn't running.
	ProbeFailed ProbeState = "Failed"
	// ProbeUnknown means that the container has started but has not been probed yet.
	ProbeUnknown ProbeState = "Unknown"
)

// PodProbeMarkerStatus is the most recently observed state of a PodProbeMarker.
type PodProbeMarkerStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`

	// matchedPods is the number of selected pods that are scheduled and initialized and have not ended.
	// +optional
	MatchedPods int64 `json:"matchedPods,omitempty"`

	// conditions are the current conditions: Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodProbeMarker probes containers of pods and writes the results to the pods, as a condition, labels and annotations.
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
