package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// PersistentPodStateSpec is the desired state of a PersistentPodState.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="requiredPersistentTopology or preferredPersistentTopology is needed, or no pod is brought back: give the node labels of one of them"
type PersistentPodStateSpec struct {
	// targetRef is the workload whose pods are remembered: a StatefulSet of apps or of apps.kruise.io, or a kind in the ConfigMap
	// kruise-configuration. It can't be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: the places belong to its pods. Make another PersistentPodState"
	TargetRef appsv1beta1.PersistentPodStateTarget `json:"targetRef"`

	// persistentPodAnnotations are annotations of pods that status records.
	// +optional
	// +listType=atomic
	PersistentPodAnnotations []appsv1beta1.PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`

	// requiredPersistentTopology are labels of nodes: a new pod runs only on a node with the values that the node of the former
	// one had.
	// +optional
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`

	// preferredPersistentTopology are likewise labels of nodes that the scheduler prefers.
	// +optional
	// +listType=atomic
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`

	// persistentPodStateRetentionPolicy is how long a pod is remembered. Default WhenScaled.
	// +optional
	PersistentPodStateRetentionPolicy appsv1beta1.PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// NodeTopologyTerm are labels of nodes.
type NodeTopologyTerm struct {
	// nodeTopologyKeys are the keys of labels. A label that the node of a pod does not have is not recorded.
	// +required
	// +listType=atomic
	NodeTopologyKeys []string `json:"nodeTopologyKeys"`
}

// PreferredTopologyTerm are labels of nodes with a weight.
type PreferredTopologyTerm struct {
	// weight is from 1 to 100, as of a preferred node affinity. One of 0 has no effect.
	// +required
	Weight int32 `json:"weight"`

	// preference are the labels.
	// +required
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodState remembers on which node each pod of a workload with stable names runs, and brings the next pod of that name
// back there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type PersistentPodState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the PersistentPodState.
	// +optional
	Spec PersistentPodStateSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status appsv1beta1.PersistentPodStateStatus `json:"status,omitempty"`
}

// PersistentPodStateList is a list of PersistentPodState.
//
// +kubebuilder:object:root=true
type PersistentPodStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PersistentPodState `json:"items"`
}
