package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
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
	TargetRef *policyv1beta1.TargetReference `json:"targetRef,omitempty"`

	// maxUnavailable is how many pods may be unavailable: a number, or a percentage of the total, rounded up.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minAvailable is how many pods must stay available: a number, or a percentage of the total, rounded up.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// ignoredPodSelector selects pods that are counted and not protected: no request for them is refused, or takes from the budget.
	// +optional
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`

	// protectNotReady protects pods that run and are not ready, too: one may be deleted or evicted only while enough others are
	// available. Default false: pods that are not ready are not protected.
	// +optional
	ProtectNotReady bool `json:"protectNotReady,omitempty"`
}

// PodUnavailableBudget protects pods: it limits how many of them may be unavailable because of deletions, evictions, updates and
// resizes.
//
// +kubebuilder:object:root=true
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
	Status policyv1beta1.PodUnavailableBudgetStatus `json:"status,omitempty"`
}

// PodUnavailableBudgetList is a list of PodUnavailableBudget.
//
// +kubebuilder:object:root=true
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodUnavailableBudget `json:"items"`
}
