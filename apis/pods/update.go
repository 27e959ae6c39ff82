package pods

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// InPlaceUpdateStrategy tunes the update of pods in place.
type InPlaceUpdateStrategy struct {
	// gracePeriodSeconds is the time between the pod being marked not ready and its containers being changed, so that
	// traffic can drain. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`

	// imagePreDownloadParallelism is on how many nodes at once a new image is pulled before pods are updated in place: a number, not a
	// percentage. Default 1. It needs feature gate PreDownloadImageForInPlaceUpdate.
	// +optional
	ImagePreDownloadParallelism *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`

	// imagePreDownloadTimeoutSeconds is how long an attempt of such a pull may take, in seconds. Default 300.
	// +optional
	ImagePreDownloadTimeoutSeconds *int32 `json:"imagePreDownloadTimeoutSeconds,omitempty"`

	// imagePreDownloadMinUpdatedReadyPods is how many pods must be updated and ready before images are pulled for the others. Default 0.
	// +optional
	ImagePreDownloadMinUpdatedReadyPods *int32 `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}

// UpdatePriorityStrategy orders pods for an update by their labels. Only one of the two lists may be set.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.orderPriority) && has(self.weightPriority))",message="only one of orderPriority and weightPriority may be set: remove the other"
type UpdatePriorityStrategy struct {
	// orderPriority orders by the first term whose key the pod has as a label or else as an annotation, then by the
	// largest trailing number of its value. A pod that has none of the keys goes first.
	// +optional
	// +listType=atomic
	OrderPriority []UpdatePriorityOrderTerm `json:"orderPriority,omitempty"`

	// weightPriority orders by the sum of the weights of all terms that select the pod, the largest first.
	// +optional
	// +listType=atomic
	WeightPriority []UpdatePriorityWeightTerm `json:"weightPriority,omitempty"`
}

// UpdatePriorityOrderTerm is one label key to order by.
type UpdatePriorityOrderTerm struct {
	// orderedKey is the key of a label, or of an annotation of pods without that label. Its value is read for trailing digits:
	// "db-10" gives 10, no digits give 0.
	// +required
	// +kubebuilder:validation:MinLength=1
	OrderedKey string `json:"orderedKey"`
}

// UpdatePriorityWeightTerm gives a weight to the pods that it selects.
type UpdatePriorityWeightTerm struct {
	// weight is added to the pods selected: 0 to 100.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// matchSelector selects the pods.
	// +required
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}

// UpdateScatterTerm names pods that are spread evenly over the sequence of an update, instead of coming one after
// another.
type UpdateScatterTerm struct {
	// key is a label key.
	// +required
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`

	// value is the label's value.
	// +required
	// +kubebuilder:validation:MinLength=1
	Value string `json:"value"`
}
