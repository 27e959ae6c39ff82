package pods

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

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

	// waves are the order in which clusters are updated. A cluster belongs to the first wave that matches it; clusters that match none are the
	// last wave, named rest. A wave begins when the clusters of all earlier waves are updated and healthy and the gates of these waves have
	// opened. Without waves, all clusters may be updated at the same time. A rollback to the last revision that was rolled out completely, and
	// the first revision of an object, don't wait for waves.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Waves []RolloutWave `json:"waves,omitempty"`

	// gates must open after each wave but the last, in addition to the gates of the wave.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Gates []RolloutGate `json:"gates,omitempty"`
}

// RestWave is the name of the last wave, which has all clusters that match no other wave.
const RestWave = "rest"

// RolloutWave is a group of clusters that are updated before the next group. A cluster matches if subsets, clusters or clusterSelector match.
// +kubebuilder:validation:XValidation:rule="has(self.subsets) || has(self.clusters) || has(self.clusterSelector)",message="a wave must select clusters: set subsets, clusters or clusterSelector"
type RolloutWave struct {
	// name identifies the wave in the status and in approvals.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self != 'rest'",message="rest is the name of the last wave, which has all clusters that match no other wave"
	Name string `json:"name"`

	// subsets are names of subsets. All clusters that run one of them match.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Subsets []string `json:"subsets,omitempty"`

	// clusters are names of clusters.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Clusters []string `json:"clusters,omitempty"`

	// clusterSelector matches the labels of MemberClusters. An empty selector matches all.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// pods is the number of pods of this wave that are updated before its gates. The others are updated together with the next wave. It can't
	// be used with a Deployment, which can't keep pods at the old revision. Defaults to all pods of the wave.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Pods *int32 `json:"pods,omitempty"`

	// maxConcurrentClusters is the maximum number of clusters of this wave that are updated at the same time. Defaults to no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxConcurrentClusters *int32 `json:"maxConcurrentClusters,omitempty"`

	// gates must open before the next wave begins.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Gates []RolloutGate `json:"gates,omitempty"`
}

// RolloutGate is a condition for the next wave, in addition to the health of the clusters that are updated.
// +kubebuilder:validation:XValidation:rule="(self.type == 'Soak') == has(self.seconds)",message="seconds is required for a gate of type Soak, and can't be used with another type"
type RolloutGate struct {
	// type is Soak, which opens when the clusters have been healthy for a number of seconds, or Approval, which opens when a RolloutApproval
	// for the revision and the wave exists.
	// +required
	Type RolloutGateType `json:"type"`

	// seconds is how long the clusters of this wave and the earlier ones must have been healthy without interruption. While the hub doesn't run,
	// the time doesn't count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	Seconds *int32 `json:"seconds,omitempty"`
}

// RolloutGateType is a type of gate.
// +kubebuilder:validation:Enum=Soak;Approval
type RolloutGateType string

// Types of gates.
const (
	// SoakGate opens when the clusters have been healthy for a while.
	SoakGate RolloutGateType = "Soak"
	// ApprovalGate opens when somebody has approved.
	ApprovalGate RolloutGateType = "Approval"
)

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
	// revision is the revision that wave and soakedSeconds are about. It is empty if the rollout has no waves.
	// +optional
	Revision string `json:"revision,omitempty"`
	// wave is the last wave that has begun.
	// +optional
	Wave string `json:"wave,omitempty"`
	// soakedSeconds is how long the clusters of the waves that have begun have been healthy, as far as this counts for a gate of type Soak. It
	// is updated from time to time.
	// +optional
	SoakedSeconds int32 `json:"soakedSeconds,omitempty"`
	// waves are the waves in their order, including rest if any cluster belongs to it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=17
	Waves []RolloutWaveStatus `json:"waves,omitempty"`
}

// RolloutWaveStatus is the progress of a wave.
type RolloutWaveStatus struct {
	// name is the name of the wave.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// phase is what the wave does.
	// +optional
	Phase RolloutWavePhase `json:"phase,omitempty"`
	// clusters is the number of clusters that belong to the wave.
	// +optional
	Clusters int32 `json:"clusters"`
	// pods is the number of pods in them.
	// +optional
	Pods int32 `json:"pods"`
	// updated is how many of these pods are at the new revision and available.
	// +optional
	Updated int32 `json:"updated"`
}

// RolloutWavePhase is what a wave does.
// +kubebuilder:validation:Enum=Pending;Updating;Soaking;AwaitingApproval;Done
type RolloutWavePhase string

// Phases of a wave.
const (
	// WavePending waits for earlier waves.
	WavePending RolloutWavePhase = "Pending"
	// WaveUpdating has pods to update, or clusters that are not healthy.
	WaveUpdating RolloutWavePhase = "Updating"
	// WaveSoaking is updated and healthy, and waits for a gate of type Soak.
	WaveSoaking RolloutWavePhase = "Soaking"
	// WaveAwaitingApproval waits for a RolloutApproval.
	WaveAwaitingApproval RolloutWavePhase = "AwaitingApproval"
	// WaveDone has opened all gates.
	WaveDone RolloutWavePhase = "Done"
)

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
