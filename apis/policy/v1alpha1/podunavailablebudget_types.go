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
	// selector selects the pods in the namespace to protect. It must not be empty. It is immutable. Either selector or targetRef must be set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="selector can't be changed: make another PodUnavailableBudget"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// targetRef refers to the workload whose pods are protected. Any kind that controls pods is allowed; kinds with a scale subresource work
	// best. It is immutable. Either selector or targetRef must be set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: make another PodUnavailableBudget"
	TargetRef *policyv1beta1.TargetReference `json:"targetRef,omitempty"`

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

	// protectNotReady also protects pods that are running but not ready: such a pod may be deleted or evicted only while enough other pods are
	// available. Defaults to false: pods that are not ready are not protected.
	// +optional
	ProtectNotReady bool `json:"protectNotReady,omitempty"`
}

// PodUnavailableBudget limits the number of pods that may be unavailable at the same time because of deletions, evictions, updates and
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

	// status is the most recently observed state of the PodUnavailableBudget.
	// +optional
	Status policyv1beta1.PodUnavailableBudgetStatus `json:"status,omitempty"`
}

// PodUnavailableBudgetList is a list of PodUnavailableBudgets.
//
// +kubebuilder:object:root=true
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodUnavailableBudget `json:"items"`
}
