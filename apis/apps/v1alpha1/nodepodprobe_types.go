package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodePodProbeSpec is the desired state of a NodePodProbe. The manager writes it.
type NodePodProbeSpec struct {
	// podProbes are the pods of the node that are probed, each once.
	// +optional
	// +listType=atomic
	PodProbes []PodProbe `json:"podProbes,omitempty"`
}

// PodProbe is what is probed in a pod.
type PodProbe struct {
	// name is the name of the pod.
	// +required
	Name string `json:"name"`

	// namespace is its namespace.
	// +required
	Namespace string `json:"namespace"`

	// uid is its UID.
	// +required
	UID types.UID `json:"uid"`

	// IP is its IP address.
	// +required
	IP string `json:"IP"`

	// probes are the probes, of all PodProbeMarkers that select the pod.
	// +optional
	// +listType=atomic
	Probes []ContainerProbe `json:"probes,omitempty"`
}

// ContainerProbe is a probe of one container.
type ContainerProbe struct {
	// name is that of the PodProbeMarker and of its probe, as marker#probe.
	// +required
	Name string `json:"name"`

	// containerName is the container that is probed.
	// +required
	ContainerName string `json:"containerName"`

	// probe says how. Ports are numbers.
	// +required
	Probe corev1.Probe `json:"probe"`
}

// NodePodProbeStatus is the most recently observed state of a NodePodProbe. The node daemon writes it.
type NodePodProbeStatus struct {
	// podProbeStatuses are the results by pod, each once.
	// +optional
	// +listType=atomic
	PodProbeStatuses []PodProbeStatus `json:"podProbeStatuses,omitempty"`
}

// PodProbeStatus is what the probes of a pod have found.
type PodProbeStatus struct {
	// name is the name of the pod.
	// +required
	Name string `json:"name"`

	// namespace is its namespace.
	// +required
	Namespace string `json:"namespace"`

	// uid is its UID.
	// +required
	UID types.UID `json:"uid"`

	// probeStates are the results, each probe once.
	// +optional
	// +listType=atomic
	ProbeStates []ContainerProbeState `json:"probeStates,omitempty"`
}

// ContainerProbeState is what a probe has found.
type ContainerProbeState struct {
	// name is that of the probe in the spec.
	// +required
	Name string `json:"name"`

	// state is Succeeded, Failed or Unknown.
	// +required
	State ProbeState `json:"state"`

	// lastProbeTime is when the result was found.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitzero"`

	// lastTransitionTime is when the state became what it is.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`

	// message is what the probe has said, at most 1024 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// NodePodProbe is what one node probes, and what it has found. It has the name of the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
type NodePodProbe struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the NodePodProbe.
	// +optional
	Spec NodePodProbeSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status NodePodProbeStatus `json:"status,omitempty"`
}

// NodePodProbeList is a list of NodePodProbe.
//
// +kubebuilder:object:root=true
type NodePodProbeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePodProbe `json:"items"`
}
