package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodUnavailableBudgetSpec is the desired state of a PodUnavailableBudget.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) != has(self.targetRef)",message="want either selector or targetRef: they say which pods are protected"
// +kubebuilder:validation:XValidation:rule="has(self.maxUnavailable) != has(self.minAvailable)",message="want either maxUnavailable or minAvailable"
// +kubebuilder:validation:XValidation:rule="has(self.selector) == has(oldSelf.selector)",message="selector and targetRef can't be changed: make another PodUnavailableBudget"
type PodUnavailableBudgetSpec struct {
	// selector selects the protected pods of the namespace. It must not be empty, and it can't be changed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="selector can't be changed: make another PodUnavailableBudget"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// targetRef is the workload whose pods are protected: of any kind that controls pods, best one with a scale subresource. It can't
	// be changed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: make another PodUnavailableBudget"
	TargetRef *TargetReference `json:"targetRef,omitempty"`

	// maxUnavailable is how many pods may be unavailable: a number, or a percentage of the total, rounded up.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minAvailable is how many pods must stay available: a number, or a percentage of the total, rounded up.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// ignoredPodSelector selects pods that are counted and not protected: no request for them is refused, or takes from the budget.
	// +optional
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`

	// protectOperations are the operations that are judged. Default DELETE, EVICT and UPDATE.
	// +optional
	// +listType=atomic
	ProtectOperations []Operation `json:"protectOperations,omitempty"`

	// protectTotalReplicas is the total, in place of what is counted.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProtectTotalReplicas *int32 `json:"protectTotalReplicas,omitempty"`

	// protectNotReady protects pods that run and are not ready, too: one may be deleted or evicted only while enough others are
	// available. Default false: pods that are not ready are not protected.
	// +optional
	ProtectNotReady bool `json:"protectNotReady,omitempty"`
}

// TargetReference names a workload in the namespace of the PodUnavailableBudget.
type TargetReference struct {
	// apiVersion is the group and a version of the kind; all versions mean the same workload.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is the kind.
	// +optional
	Kind string `json:"kind,omitempty"`

	// name is the name.
	// +optional
	Name string `json:"name,omitempty"`
}

// Operation is what a request does to a pod.
//
// +kubebuilder:validation:Enum=DELETE;UPDATE;EVICT;RESIZE
type Operation string

// Values of protectOperations.
const (
	// Delete is the deletion of a pod.
	Delete Operation = "DELETE"
	// Update is a change of a pod's spec, or a new label that marks it as unavailable.
	Update Operation = "UPDATE"
	// Evict is an eviction.
	Evict Operation = "EVICT"
	// Resize is a change of cpu and memory alone, of containers that go on running.
	Resize Operation = "RESIZE"
)

// PodUnavailableBudgetStatus is the most recently observed state of a PodUnavailableBudget.
type PodUnavailableBudgetStatus struct {
	// observedGeneration is the generation of the spec that the rest of the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// disruptedPods are the pods that may be deleted or evicted, and when that was granted. A pod leaves when its deletion begins, or
	// after 20 seconds without.
	// +optional
	DisruptedPods map[string]metav1.Time `json:"disruptedPods,omitempty"`

	// unavailablePods are the pods that may be updated or resized, and when that was granted. A pod leaves after 10 seconds; then its
	// own state counts.
	// +optional
	UnavailablePods map[string]metav1.Time `json:"unavailablePods,omitempty"`

	// unavailableAllowed is how many available pods may still become unavailable.
	// +required
	UnavailableAllowed int32 `json:"unavailableAllowed"`

	// currentAvailable is how many pods were available when they were last counted, without those in disruptedPods and
	// unavailablePods.
	// +required
	CurrentAvailable int32 `json:"currentAvailable"`

	// desiredAvailable is how many pods must stay available.
	// +required
	DesiredAvailable int32 `json:"desiredAvailable"`

	// totalReplicas is the total that percentages are of.
	// +required
	TotalReplicas int32 `json:"totalReplicas"`

	// conditions are Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodUnavailableBudget protects pods: it limits how many of them may be unavailable because of deletions, evictions, updates and
// resizes.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pub
// +kubebuilder:printcolumn:name="Allowed",type=integer,JSONPath=`.status.unavailableAllowed`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentAvailable`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredAvailable`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.totalReplicas`
type PodUnavailableBudget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the PodUnavailableBudget.
	// +optional
	Spec PodUnavailableBudgetSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status PodUnavailableBudgetStatus `json:"status,omitempty"`
}

// PodUnavailableBudgetList is a list of PodUnavailableBudget.
//
// +kubebuilder:object:root=true
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodUnavailableBudget `json:"items"`
}
