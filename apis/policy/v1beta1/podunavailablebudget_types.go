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
	// selector selects the pods in the namespace to protect. It must not be empty. It is immutable. Either selector or targetRef must be set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="selector can't be changed: make another PodUnavailableBudget"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// targetRef refers to the workload whose pods are protected. Any kind that controls pods is allowed; kinds with a scale subresource work
	// best. It is immutable. Either selector or targetRef must be set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: make another PodUnavailableBudget"
	TargetRef *TargetReference `json:"targetRef,omitempty"`

	// maxUnavailable is the maximum number of pods that may be unavailable. Value can be an absolute number (ex: 5) or a percentage of the
	// total (ex: 10%), which is rounded up. Either maxUnavailable or minAvailable must be set.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minAvailable is the minimum number of pods that must stay available. Value can be an absolute number (ex: 5) or a percentage of the
	// total (ex: 10%), which is rounded up. Either maxUnavailable or minAvailable must be set.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// ignoredPodSelector selects pods that are counted but not protected. Requests for them are never refused, and don't use up the budget.
	// +optional
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`

	// protectOperations are the operations that the budget applies to. Defaults to DELETE, EVICT and UPDATE.
	// +optional
	// +listType=atomic
	ProtectOperations []Operation `json:"protectOperations,omitempty"`

	// protectTotalReplicas is the total number of pods to calculate with, instead of the counted one. It must be at least 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProtectTotalReplicas *int32 `json:"protectTotalReplicas,omitempty"`

	// protectNotReady also protects pods that are running but not ready: such a pod may be deleted or evicted only while enough other pods are
	// available. Defaults to false: pods that are not ready are not protected.
	// +optional
	ProtectNotReady bool `json:"protectNotReady,omitempty"`
}

// TargetReference refers to a workload in the namespace of the PodUnavailableBudget.
type TargetReference struct {
	// apiVersion is the group and version of the workload. The version doesn't matter: all versions refer to the same workload.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is the kind of the workload.
	// +optional
	Kind string `json:"kind,omitempty"`

	// name is the name of the workload.
	// +optional
	Name string `json:"name,omitempty"`
}

// Operation is an operation on a pod.
//
// +kubebuilder:validation:Enum=DELETE;UPDATE;EVICT;RESIZE
type Operation string

// Values of protectOperations.
const (
	// Delete is the deletion of a pod.
	Delete Operation = "DELETE"
	// Update is a change of a pod's spec, or a new label that marks the pod as unavailable.
	Update Operation = "UPDATE"
	// Evict is the eviction of a pod.
	Evict Operation = "EVICT"
	// Resize is a change of only the cpu and memory of containers, which keep running.
	Resize Operation = "RESIZE"
)

// PodUnavailableBudgetStatus is the most recently observed state of a PodUnavailableBudget.
type PodUnavailableBudgetStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// disruptedPods are the pods whose deletion or eviction was allowed, with the time at which it was allowed. A pod is removed when its
	// deletion begins, or after 20 seconds if it doesn't.
	// +optional
	DisruptedPods map[string]metav1.Time `json:"disruptedPods,omitempty"`

	// unavailablePods are the pods whose update or resize was allowed, with the time at which it was allowed. A pod is removed after 10
	// seconds; from then on its own state counts.
	// +optional
	UnavailablePods map[string]metav1.Time `json:"unavailablePods,omitempty"`

	// unavailableAllowed is the number of available pods that may still become unavailable.
	// +required
	UnavailableAllowed int32 `json:"unavailableAllowed"`

	// currentAvailable is the number of available pods when they were last counted, excluding the pods in disruptedPods and unavailablePods.
	// +required
	CurrentAvailable int32 `json:"currentAvailable"`

	// desiredAvailable is the number of pods that must stay available.
	// +required
	DesiredAvailable int32 `json:"desiredAvailable"`

	// totalReplicas is the total number of pods, which percentages refer to.
	// +required
	TotalReplicas int32 `json:"totalReplicas"`

	// conditions are the current conditions: Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodUnavailableBudget limits the number of pods that may be unavailable at the same time because of deletions, evictions, updates and
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

	// status is the most recently observed state of the PodUnavailableBudget.
	// +optional
	Status PodUnavailableBudgetStatus `json:"status,omitempty"`
}

// PodUnavailableBudgetList is a list of PodUnavailableBudgets.
//
// +kubebuilder:object:root=true
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodUnavailableBudget `json:"items"`
}
