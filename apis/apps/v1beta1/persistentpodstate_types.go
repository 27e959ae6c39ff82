package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PersistentPodStateSpec is the desired state of a PersistentPodState.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="requiredPersistentTopology or preferredPersistentTopology is needed, or no pod is brought back: give the node labels of one of them"
type PersistentPodStateSpec struct {
	// targetRef refers to the workload whose pods are recorded: a StatefulSet of apps or apps.kruise.io, or a kind that is listed in the
	// ConfigMap kruise-configuration. It is immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: the places belong to its pods. Make another PersistentPodState"
	TargetRef PersistentPodStateTarget `json:"targetRef"`

	// persistentPodAnnotations lists annotations of pods to record in the status.
	// +optional
	// +listType=atomic
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`

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
	PersistentPodStateRetentionPolicy PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// PersistentPodStateTarget refers to the workload of a PersistentPodState, in the same namespace.
type PersistentPodStateTarget struct {
	// apiVersion is the group and version of the workload. The version doesn't matter: all versions refer to the same workload.
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the workload.
	// +required
	Kind string `json:"kind"`

	// name is the name of the workload.
	// +required
	Name string `json:"name"`
}

// PersistentPodAnnotation is an annotation of pods to record.
type PersistentPodAnnotation struct {
	// key is the key of the annotation.
	// +required
	Key string `json:"key"`

	// reapply also sets the recorded value on the new pod, unless its template has the annotation. If false, the value is only recorded, for
	// readers of the status. Defaults to false.
	// +optional
	Reapply bool `json:"reapply,omitempty"`
}

// NodeTopologyTerm lists node labels.
type NodeTopologyTerm struct {
	// keys are the keys of the labels. A label that the node of a pod doesn't have is not recorded.
	// +required
	// +listType=atomic
	Keys []string `json:"keys"`
}

// PreferredTopologyTerm lists node labels with a weight.
type PreferredTopologyTerm struct {
	// weight is the weight of the preferred node affinity term, in the range 1-100. A term with weight 0 has no effect.
	// +required
	// +kubebuilder:validation:Minimum=0
	Weight int32 `json:"weight"`

	// preference lists the node labels.
	// +required
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodStateRetentionPolicy specifies how long the state of a pod is kept.
//
// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
type PersistentPodStateRetentionPolicy string

// Values of persistentPodStateRetentionPolicy.
const (
	// WhenScaled drops the state of a pod that is gone when its ordinal is no longer wanted.
	WhenScaled PersistentPodStateRetentionPolicy = "WhenScaled"
	// WhenDeleted keeps the state of pods until the workload is deleted.
	WhenDeleted PersistentPodStateRetentionPolicy = "WhenDeleted"
)

// PersistentPodStateStatus is the most recently observed state of a PersistentPodState.
type PersistentPodStateStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`

	// podStates contains the recorded states by pod name.
	// +optional
	PodStates map[string]PodState `json:"podStates,omitempty"`

	// conditions are the current conditions: Active, Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PersistentPodStateActive is a condition that is True while pods of the workload are recorded and new pods get what was recorded.
const PersistentPodStateActive = "Active"

// PodState is the recorded state of a pod.
type PodState struct {
	// nodeName is the name of the node that the pod ran on when it was last ready.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// nodeTopologyLabels are the labels of that node.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`

	// annotations are the recorded annotations of the pod.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PersistentPodState records on which node each pod of a workload with stable names runs, and returns the next pod with the same name to
// that node.
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
