package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// PersistentPodStateSpec is the desired state of a PersistentPodState.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="requiredPersistentTopology or preferredPersistentTopology is needed, or no pod is brought back: give the node labels of one of them"
type PersistentPodStateSpec struct {
	// targetRef refers to the workload whose pods are recorded: a StatefulSet of apps or apps.kruise.io, or a kind that is listed in the
	// ConfigMap kruise-configuration. It is immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: the places belong to its pods. Make another PersistentPodState"
	TargetRef appsv1beta1.PersistentPodStateTarget `json:"targetRef"`

	// persistentPodAnnotations lists annotations of pods to record in the status.
	// +optional
	// +listType=atomic
	PersistentPodAnnotations []appsv1beta1.PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`

	// requiredPersistentTopology lists node labels. A new pod runs only on nodes whose labels have the values that the node of the previous
	// pod had.
	// +optional
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`

	// preferredPersistentTopology lists node labels. The scheduler prefers nodes whose labels have the values that the node of the previous
	// pod had.
	// +optional
	// +listType=atomic
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`

	// persistentPodStateRetentionPolicy specifies how long the state of a pod is kept. WhenScaled drops it when the pod is gone and its
	// ordinal is no longer wanted. WhenDeleted keeps it until the workload is deleted. Defaults to WhenScaled.
	// +optional
	PersistentPodStateRetentionPolicy appsv1beta1.PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// NodeTopologyTerm lists node labels.
type NodeTopologyTerm struct {
	// nodeTopologyKeys are the keys of the labels. A label that the node of a pod doesn't have is not recorded.
	// +required
	// +listType=atomic
	NodeTopologyKeys []string `json:"nodeTopologyKeys"`
}

// PreferredTopologyTerm lists node labels with a weight.
type PreferredTopologyTerm struct {
	// weight is the weight of the preferred node affinity term, in the range 1-100. A term with weight 0 has no effect.
	// +required
	Weight int32 `json:"weight"`

	// preference lists the node labels.
	// +required
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodState records on which node each pod of a workload with stable names runs, and returns the next pod with the same name to
// that node.
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
