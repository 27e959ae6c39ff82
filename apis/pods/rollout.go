package pods

import "k8s.io/apimachinery/pkg/util/intstr"

// RolloutPlan specifies how a hub rolls out a new revision over clusters. All numbers apply to the pods of all clusters together.
type RolloutPlan struct {
	// maxUnavailable is the maximum number of pods in all clusters together that may be unavailable because of the rollout. Pods that are
	// unavailable for another reason count too: while there are more of them, no further pod is updated. Value can be an absolute number
	// (ex: 5) or a percentage of spec.replicas (ex: 10%), which is rounded down, but to at least 1. Defaults to 10%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 1",message="maxUnavailable must be at least 1, or no pod can be updated: use paused to stop the rollout"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// partition is the number of pods in all clusters together that stay at the old revision. Value can be an absolute number (ex: 5) or a
	// percentage of spec.replicas (ex: 10%), which is rounded up. It can't be used with a Deployment, which can't keep pods at the old
	// revision. Pods that are at the new revision already are not rolled back. Defaults to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="partition can't be negative: use 0 to update all pods"
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// paused stops the rollout: no further pod is updated. Replicas are still moved and scaled. Defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// staleClusters specifies what the rollout does about clusters that don't answer. With Hold, all of their pods count as unavailable, so
	// that the rollout usually waits for them. With Skip, only what they may still update counts, and they are updated when they answer again.
	// Defaults to Hold.
	// +optional
	StaleClusters StaleClustersPolicy `json:"staleClusters,omitempty"`
}

// StaleClustersPolicy specifies what a rollout does about clusters that don't answer.
// +kubebuilder:validation:Enum=Hold;Skip
type StaleClustersPolicy string

// Policies for clusters that don't answer.
const (
	// StaleClustersHold counts all pods of such a cluster as unavailable.
	StaleClustersHold StaleClustersPolicy = "Hold"
	// StaleClustersSkip counts only what such a cluster may still update.
	StaleClustersSkip StaleClustersPolicy = "Skip"
)

// RolloutStatus is the progress of a rollout over clusters.
type RolloutStatus struct {
	// budget is how much of maxUnavailable is used.
	// +optional
	Budget RolloutBudget `json:"budget,omitempty"`
	// message says what the rollout waits for. It is empty when no pod is left to update.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// RolloutBudget contains numbers of pods in all clusters together.
type RolloutBudget struct {
	// max is how many pods may be unavailable, resolved from maxUnavailable.
	// +optional
	Max int32 `json:"max"`
	// spent is how many pods are unavailable according to the last reports, including those in clusters that don't answer.
	// +optional
	Spent int32 `json:"spent"`
	// bound is how many pods may be unavailable at most before the hub grants more.
	// +optional
	Bound int32 `json:"bound"`
}
