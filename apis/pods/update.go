package pods

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// InPlaceUpdateStrategy configures the in-place update of pods.
type InPlaceUpdateStrategy struct {
	// gracePeriodSeconds is the time between marking a pod not ready and changing its containers, in seconds, so that its traffic can drain.
	// Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`

	// imagePreDownloadParallelism is the maximum number of nodes that pull a new image at the same time before pods are updated in place. It
	// must be a number, not a percentage. It requires the feature gate PreDownloadImageForInPlaceUpdate. Defaults to 1.
	// +optional
	ImagePreDownloadParallelism *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`

	// imagePreDownloadTimeoutSeconds is the timeout of one attempt to pull a new image before pods are updated in place, in seconds. Defaults
	// to 300.
	// +optional
	ImagePreDownloadTimeoutSeconds *int32 `json:"imagePreDownloadTimeoutSeconds,omitempty"`

	// imagePreDownloadMinUpdatedReadyPods is the number of pods that must be updated and ready before images are pulled for the other pods.
	// Defaults to 0.
	// +optional
	ImagePreDownloadMinUpdatedReadyPods *int32 `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}

// UpdatePriorityStrategy orders pods for an update by their labels. Only one of the lists may be set.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.orderPriority) && has(self.weightPriority))",message="only one of orderPriority and weightPriority may be set: remove the other"
type UpdatePriorityStrategy struct {
	// orderPriority orders pods by the first term whose key is a label of the pod, or else an annotation, and then by the trailing number of
	// its value, largest first. Pods that have none of the keys come first.
	// +optional
	// +listType=atomic
	OrderPriority []UpdatePriorityOrderTerm `json:"orderPriority,omitempty"`

	// weightPriority orders pods by the sum of the weights of all terms that select the pod, largest first.
	// +optional
	// +listType=atomic
	WeightPriority []UpdatePriorityWeightTerm `json:"weightPriority,omitempty"`
}

// UpdatePriorityOrderTerm is a label key to order pods by.
type UpdatePriorityOrderTerm struct {
	// orderedKey is the key of a label, or of an annotation for pods without the label. Pods are ordered by the trailing digits of its value:
	// 10 for "db-10", 0 for a value without trailing digits.
	// +required
	// +kubebuilder:validation:MinLength=1
	OrderedKey string `json:"orderedKey"`
}

// UpdatePriorityWeightTerm assigns a weight to the pods that it selects.
type UpdatePriorityWeightTerm struct {
	// weight is added to the weight of the selected pods. It must be in the range 0-100.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// matchSelector selects the pods by their labels.
	// +required
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}

// UpdateScatterTerm identifies pods that are spread evenly over an update, instead of being updated one after another.
type UpdateScatterTerm struct {
	// key is the key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`

	// value is the value of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	Value string `json:"value"`
}
