package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// WorkloadSpreadSpec is the desired state of a WorkloadSpread.
//
// +kubebuilder:validation:XValidation:rule="self.subsets.all(s, has(s.cluster) || has(s.clusterSelector)) || !self.subsets.exists(s, has(s.cluster) || has(s.clusterSelector))",message="either every subset names a cluster or none does: give each subset cluster or clusterSelector, or take them off all"
// +kubebuilder:validation:XValidation:rule="!has(self.placement) || self.subsets.exists(s, has(s.cluster) || has(s.clusterSelector))",message="placement is about clusters: give each subset cluster or clusterSelector, or remove placement"
type WorkloadSpreadSpec struct {
	// targetRef is the workload whose pods are spread: a CloneSet, Deployment, ReplicaSet, StatefulSet of either group, Job, or a kind
	// in the ConfigMap kruise-configuration. It can't be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: pods are counted by it. Make another WorkloadSpread"
	TargetRef WorkloadSpreadTarget `json:"targetRef"`

	// subsets are where pods run, in order of priority: a new pod goes to the first one that has room.
	// +required
	// +listType=atomic
	Subsets []WorkloadSpreadSubset `json:"subsets"`

	// targetFilter limits it to a part of the workload's pods.
	// +optional
	TargetFilter *WorkloadSpreadTargetFilter `json:"targetFilter,omitempty"`

	// scheduleStrategy is what becomes of pods that can't be scheduled.
	// +optional
	ScheduleStrategy WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitempty"`

	// overflowPolicy is what becomes of a new pod if all subsets are full. Default Create.
	// +optional
	OverflowPolicy WorkloadSpreadOverflowPolicy `json:"overflowPolicy,omitempty"`

	// placement is how a hub moves replicas between clusters. Only with subsets that name a cluster.
	// +optional
	Placement *pods.Placement `json:"placement,omitempty"`
}

// WorkloadSpreadSubset is one group of the pods.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.cluster) && has(self.clusterSelector))",message="a subset has either cluster or clusterSelector: remove one of them"
type WorkloadSpreadSubset struct {
	// name is the name, which must be unique.
	// +required
	Name string `json:"name"`

	// requiredNodeSelector is what nodes must match, added to each term that the pod requires already.
	// +optional
	RequiredNodeSelector *corev1.NodeSelectorTerm `json:"requiredNodeSelector,omitempty"`

	// preferredNodeSelector are what nodes should match.
	// +optional
	// +listType=atomic
	PreferredNodeSelector []corev1.PreferredSchedulingTerm `json:"preferredNodeSelector,omitempty"`

	// tolerations are added to those of the pod.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// maxReplicas is how many pods of one version may be in the subset: a number, or a percentage of the workload's replicas, rounded
	// up. Unset: any number.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// patch is a strategic merge patch on the pod, applied after the rest.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// cluster is the MemberCluster that runs the pods of this subset. Only on a hub; mutually exclusive with clusterSelector.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster,omitempty"`

	// clusterSelector makes one subset of this one in each MemberCluster whose labels match, named <name>-<cluster> in the status.
	// maxReplicas holds for all of them together, which share evenly. An empty selector matches every cluster. Only on a hub; mutually
	// exclusive with cluster.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// WorkloadSpreadTarget names the workload of a WorkloadSpread in its own namespace.
type WorkloadSpreadTarget struct {
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

// WorkloadSpreadTargetFilter is the part of a workload's pods that a WorkloadSpread is about.
type WorkloadSpreadTargetFilter struct {
	// selector is what labels of the pods match. Unset: all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// replicasPathList are the fields of the workload whose sum is the number of these pods, as in spec.workers.replicas. Without any
	// it is the number of the workload's replicas.
	// +optional
	// +listType=atomic
	ReplicasPathList []string `json:"replicasPathList,omitempty"`
}

// WorkloadSpreadScheduleStrategy is what becomes of pods that can't be scheduled.
type WorkloadSpreadScheduleStrategy struct {
	// type is Fixed, the default, or Adaptive.
	// +optional
	Type WorkloadSpreadScheduleStrategyType `json:"type,omitempty"`

	// adaptive are the parameters of Adaptive.
	// +optional
	Adaptive *AdaptiveWorkloadSpreadStrategy `json:"adaptive,omitempty"`
}

// WorkloadSpreadScheduleStrategyType is a strategy.
//
// +kubebuilder:validation:Enum=Adaptive;Fixed;""
type WorkloadSpreadScheduleStrategyType string

// Strategies.
const (
	// AdaptiveWorkloadSpread deletes pods that can't be scheduled, and marks their subset as unschedulable for a while: so the workload
	// creates them again, and they go to the next subset.
	AdaptiveWorkloadSpread WorkloadSpreadScheduleStrategyType = "Adaptive"
	// FixedWorkloadSpread leaves them where they are.
	FixedWorkloadSpread WorkloadSpreadScheduleStrategyType = "Fixed"
)

// AdaptiveWorkloadSpreadStrategy are the parameters of Adaptive.
type AdaptiveWorkloadSpreadStrategy struct {
	// disableSimulationSchedule has no effect: scheduling is never simulated.
	// +optional
	DisableSimulationSchedule bool `json:"disableSimulationSchedule,omitempty"`

	// rescheduleCriticalSeconds is how long a pod may be unschedulable before it is deleted, in seconds. Unset: no pod is.
	// +optional
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
}

// WorkloadSpreadOverflowPolicy is what becomes of a new pod if all subsets are full.
//
// +kubebuilder:validation:Enum=Create;Refuse
type WorkloadSpreadOverflowPolicy string

// Values of overflowPolicy.
const (
	// OverflowCreate creates the pod as its workload made it, in no subset.
	OverflowCreate WorkloadSpreadOverflowPolicy = "Create"
	// OverflowRefuse refuses it; its workload tries again.
	OverflowRefuse WorkloadSpreadOverflowPolicy = "Refuse"
)

// WorkloadSpreadStatus is the most recently observed state of a WorkloadSpread.
type WorkloadSpreadStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// subsetStatuses are the subsets with the pods of all versions.
	// +optional
	// +listType=atomic
	SubsetStatuses []WorkloadSpreadSubsetStatus `json:"subsetStatuses,omitempty"`

	// versionedSubsetStatuses are the subsets with the pods of each version. Pods of kinds that are not counted by version have the
	// version versionIgnored.
	// +optional
	VersionedSubsetStatuses map[string]WorkloadSpreadSubsetStatuses `json:"versionedSubsetStatuses,omitempty"`

	// conditions are observations of the WorkloadSpread: Active, Ready, Reconciling and Stalled, and on a hub Placed and SubsetFailure.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadSpreadSubsetStatuses are all subsets.
//
// +listType=atomic
//
// Their order is that of the spec.
type WorkloadSpreadSubsetStatuses []WorkloadSpreadSubsetStatus

// WorkloadSpreadSubsetStatus is one subset.
type WorkloadSpreadSubsetStatus struct {
	// name is that of the subset.
	// +required
	Name string `json:"name"`

	// conditions are observations of the subset: Schedulable, with Adaptive only.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// replicas is how many of its pods are active.
	// +required
	Replicas int32 `json:"replicas"`

	// missingReplicas is how many pods more it may get, -1 for any number.
	// +required
	MissingReplicas int32 `json:"missingReplicas"`

	// cluster is the name of the MemberCluster that runs the subset. It is set only on a hub.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// stale is true if the cluster does not answer, so that the numbers are old. Only on a hub.
	// +optional
	Stale bool `json:"stale,omitempty"`

	// unschedulableReplicas is how many of the pods could not be scheduled for rescheduleCriticalSeconds or longer, and go to the next
	// cluster: pods that a subset of the same cluster gets first are not counted. Only on a hub, and in what a hub sent.
	// +optional
	UnschedulableReplicas int32 `json:"unschedulableReplicas,omitempty"`

	// creatingPods are pods that were admitted and not seen yet, by name, or by a UID if the name was not known, with the time.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`

	// deletingPods are former records of deletions; nothing is recorded any more.
	// +optional
	DeletingPods map[string]metav1.Time `json:"deletingPods,omitempty"`
}

// WorkloadSpreadActive is the condition that new pods of the workload are spread.
const WorkloadSpreadActive = "Active"

// Conditions of a WorkloadSpread over clusters, on a hub.
const (
	// WorkloadSpreadPlaced is the condition that every replica is in the cluster where it should run.
	WorkloadSpreadPlaced = "Placed"
	// WorkloadSpreadFailure is the condition that a subset is not as desired.
	WorkloadSpreadFailure = "SubsetFailure"
)

// WorkloadSpreadSubsetSchedulable is the condition of a subset that pods are scheduled there. While it is False new pods go elsewhere.
const WorkloadSpreadSubsetSchedulable = "Schedulable"

// WorkloadSpread spreads the pods of one workload over subsets: sets of nodes with a highest number of pods each.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=ws
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="WorkloadName",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="WorkloadKind",type=string,JSONPath=`.spec.targetRef.kind`
// +kubebuilder:printcolumn:name="Adaptive",type=boolean,JSONPath=`.spec.scheduleStrategy.type[?(@ == "Adaptive")]`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadSpread struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the WorkloadSpread.
	// +optional
	Spec WorkloadSpreadSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status WorkloadSpreadStatus `json:"status,omitempty"`
}

// WorkloadSpreadList is a list of WorkloadSpread.
//
// +kubebuilder:object:root=true
type WorkloadSpreadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadSpread `json:"items"`
}
