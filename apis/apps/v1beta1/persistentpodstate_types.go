package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PersistentPodStateSpec is the desired state of a PersistentPodState.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="requiredPersistentTopology or preferredPersistentTopology is needed, or no pod is brought back: give the node labels of one of them"
type PersistentPodStateSpec struct {
	// targetRef is the workload whose pods are remembered: a StatefulSet of apps or of apps.kruise.io, or a kind in the ConfigMap
	// kruise-configuration. It can't be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: the places belong to its pods. Make another PersistentPodState"
	TargetRef PersistentPodStateTarget `json:"targetRef"`

	// persistentPodAnnotations are annotations of pods that status records.
	// +optional
	// +listType=atomic
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`

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
	PersistentPodStateRetentionPolicy PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// PersistentPodStateTarget names the workload of a PersistentPodState in its own namespace.
type PersistentPodStateTarget struct {
	// apiVersion is the group and version of the workload. The version doesn't matter: all versions refer to the same workload.
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the object.
	// +required
	Kind string `json:"kind"`

	// name is the name of the object.
	// +required
	Name string `json:"name"`
}

// PersistentPodAnnotation is an annotation of pods to record.
type PersistentPodAnnotation struct {
	// key is the annotation.
	// +required
	Key string `json:"key"`

	// reapply gives the recorded value to the new pod too, unless its template has the annotation. Default false: the value is only
	// recorded, for others who read status.
	// +optional
	Reapply bool `json:"reapply,omitempty"`
}

// NodeTopologyTerm are labels of nodes.
type NodeTopologyTerm struct {
	// keys are the keys of labels. A label that the node of a pod does not have is not recorded.
	// +required
	// +listType=atomic
	Keys []string `json:"keys"`
}

// PreferredTopologyTerm are labels of nodes with a weight.
type PreferredTopologyTerm struct {
	// weight is from 1 to 100, as of a preferred node affinity. One of 0 has no effect.
	// +required
	// +kubebuilder:validation:Minimum=0
	Weight int32 `json:"weight"`

	// preference are the labels.
	// +required
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodStateRetentionPolicy is how long a pod is remembered.
//
// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
type PersistentPodStateRetentionPolicy string

// Values of persistentPodStateRetentionPolicy.
const (
	// WhenScaled forgets a pod that is gone when its ordinal is not wanted any more.
	WhenScaled PersistentPodStateRetentionPolicy = "WhenScaled"
	// WhenDeleted remembers pods until the workload is deleted.
	WhenDeleted PersistentPodStateRetentionPolicy = "WhenDeleted"
)

// PersistentPodStateStatus is the most recently observed state of a PersistentPodState.
type PersistentPodStateStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`

	// podStates is what is remembered, by the name of the pod.
	// +optional
	PodStates map[string]PodState `json:"podStates,omitempty"`

	// conditions are observations of the state: Active, Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PersistentPodStateActive is the condition that pods of the workload are recorded, and that new ones get what was recorded.
const PersistentPodStateActive = "Active"

// PodState is what is remembered of a pod.
type PodState struct {
	// nodeName is the node that it ran on when it was last ready.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// nodeTopologyLabels are the labels of that node.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`

	// annotations are those of the pod.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PersistentPodState remembers on which node each pod of a workload with stable names runs, and brings the next pod of that name
// back there.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
type PersistentPodState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the PersistentPodState.
	// +optional
	Spec PersistentPodStateSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status PersistentPodStateStatus `json:"status,omitempty"`
}

// PersistentPodStateList is a list of PersistentPodState.
//
// +kubebuilder:object:root=true
type PersistentPodStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PersistentPodState `json:"items"`
}
