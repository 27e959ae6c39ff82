package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodePodProbeSpec is the desired state of a NodePodProbe. It is written by the manager.
type NodePodProbeSpec struct {
	// podProbes lists the pods of the node that are probed. Each pod is listed once.
	// +optional
	// +listType=atomic
	PodProbes []PodProbe `json:"podProbes,omitempty"`
}

// PodProbe lists the probes of a pod.
type PodProbe struct {
	// name is the name of the pod.
	// +required
	Name string `json:"name"`

	// namespace is the namespace of the pod.
	// +required
	Namespace string `json:"namespace"`

	// uid is the UID of the pod.
	// +required
	UID types.UID `json:"uid"`

	// IP is the IP address of the pod.
	// +required
	IP string `json:"IP"`

	// probes are the probes from all PodProbeMarkers that select the pod.
	// +optional
	// +listType=atomic
	Probes []ContainerProbe `json:"probes,omitempty"`
}

// ContainerProbe is a probe of one container.
type ContainerProbe struct {
	// name consists of the names of the PodProbeMarker and its probe, as marker#probe.
	// +required
	Name string `json:"name"`

	// containerName is the name of the container to probe.
	// +required
	ContainerName string `json:"containerName"`

	// probe is the probe to run. Its ports are numbers.
	// +required
	Probe corev1.Probe `json:"probe"`
}

// NodePodProbeStatus is the most recently observed state of a NodePodProbe. It is written by the node daemon.
type NodePodProbeStatus struct {
	// podProbeStatuses are the results by pod. Each pod is listed once.
	// +optional
	// +listType=atomic
	PodProbeStatuses []PodProbeStatus `json:"podProbeStatuses,omitempty"`
}

// PodProbeStatus contains the results of the probes of a pod.
type PodProbeStatus struct {
	// name is the name of the pod.
	// +required
	Name string `json:"name"`

	// namespace is the namespace of the pod.
	// +required
	Namespace string `json:"namespace"`

	// uid is the UID of the pod.
	// +required
	UID types.UID `json:"uid"`

	// probeStates are the results of the probes. Each probe is listed once.
	// +optional
	// +listType=atomic
	ProbeStates []ContainerProbeState `json:"probeStates,omitempty"`
}

// ContainerProbeState is the result of a probe.
type ContainerProbeState struct {
	// name is the name of the probe in the spec.
	// +required
	Name string `json:"name"`

	// state is the result of the probe: Succeeded, Failed or Unknown.
	// +required
	State ProbeState `json:"state"`

	// lastProbeTime is the time of the result.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitzero"`

	// lastTransitionTime is the last time at which the state changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`

	// message is the output of the probe, with at most 1024 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// NodePodProbe lists the probes that one node runs, and their results. It has the name of the node.
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
