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
	// targetRef refers to the workload whose pods are spread: a CloneSet, Deployment, ReplicaSet, StatefulSet of either group, Job, or a kind
	// that is listed in the ConfigMap kruise-configuration. It is immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: pods are counted by it. Make another WorkloadSpread"
	TargetRef WorkloadSpreadTarget `json:"targetRef"`

	// subsets are the subsets in order of priority. A new pod goes to the first one that has room.
	// +required
	// +listType=atomic
	Subsets []WorkloadSpreadSubset `json:"subsets"`

	// targetFilter restricts the WorkloadSpread to a part of the workload's pods.
	// +optional
	TargetFilter *WorkloadSpreadTargetFilter `json:"targetFilter,omitempty"`

	// scheduleStrategy configures what happens to pods that can't be scheduled.
	// +optional
	ScheduleStrategy WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitempty"`

	// overflowPolicy specifies what happens to a new pod if all subsets are full. Create creates the pod without a subset. Refuse rejects it,
	// and the workload retries. Defaults to Create.
	// +optional
	OverflowPolicy WorkloadSpreadOverflowPolicy `json:"overflowPolicy,omitempty"`

	// placement configures how a hub moves replicas between clusters. It requires subsets that name a cluster.
	// +optional
	Placement *pods.Placement `json:"placement,omitempty"`
}

// WorkloadSpreadSubset is one group of pods.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.cluster) && has(self.clusterSelector))",message="a subset has either cluster or clusterSelector: remove one of them"
type WorkloadSpreadSubset struct {
	// name is the name of the subset. It must be unique.
	// +required
	Name string `json:"name"`

	// requiredNodeSelector restricts the nodes for the pods of the subset. It is added to each required node affinity term of a pod.
	// +optional
	RequiredNodeSelector *corev1.NodeSelectorTerm `json:"requiredNodeSelector,omitempty"`

	// preferredNodeSelector are the nodes that are preferred for the pods of the subset.
	// +optional
	// +listType=atomic
	PreferredNodeSelector []corev1.PreferredSchedulingTerm `json:"preferredNodeSelector,omitempty"`

	// tolerations are added to the tolerations of the pod.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// maxReplicas is the maximum number of pods of one version in the subset. Value can be an absolute number (ex: 5) or a percentage of the
	// workload's replicas (ex: 10%), which is rounded up. If unset, there is no limit.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// patch is a strategic merge patch for the pod, which is applied after everything else.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// cluster is the name of the MemberCluster that runs the pods of the subset. It is allowed only on a hub, and mutually exclusive with
	// clusterSelector.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster,omitempty"`

	// clusterSelector creates a subset in each MemberCluster with matching labels, which is named <name>-<cluster> in the status. maxReplicas
	// applies to all of them together, and they share the pods evenly. An empty selector matches every cluster. It is allowed only on a hub,
	// and mutually exclusive with cluster.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// WorkloadSpreadTarget refers to the workload of a WorkloadSpread, in the same namespace.
type WorkloadSpreadTarget struct {
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

// WorkloadSpreadTargetFilter selects the part of a workload's pods that a WorkloadSpread applies to.
type WorkloadSpreadTargetFilter struct {
	// selector selects the pods by their labels. If unset, all pods are selected.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// replicasPathList lists the fields of the workload whose sum is the number of these pods, such as spec.workers.replicas. If empty, it is
	// the number of replicas of the workload.
	// +optional
	// +listType=atomic
	ReplicasPathList []string `json:"replicasPathList,omitempty"`
}

// WorkloadSpreadScheduleStrategy configures what happens to pods that can't be scheduled.
type WorkloadSpreadScheduleStrategy struct {
	// type specifies what happens to pods that can't be scheduled. With Fixed, they stay where they are. With Adaptive, they are deleted, and
	// their subset is marked as unschedulable for a while, so that the workload recreates them in the next subset. Defaults to Fixed.
	// +optional
	Type WorkloadSpreadScheduleStrategyType `json:"type,omitempty"`

	// adaptive configures the type Adaptive.
	// +optional
	Adaptive *AdaptiveWorkloadSpreadStrategy `json:"adaptive,omitempty"`
}

// WorkloadSpreadScheduleStrategyType specifies what happens to pods that can't be scheduled.
//
// +kubebuilder:validation:Enum=Adaptive;Fixed;""
type WorkloadSpreadScheduleStrategyType string

// Types of WorkloadSpreadScheduleStrategy.
const (
	// AdaptiveWorkloadSpread deletes pods that can't be scheduled, and marks their subset as unschedulable for a while, so that the workload
	// recreates the pods in the next subset.
	AdaptiveWorkloadSpread WorkloadSpreadScheduleStrategyType = "Adaptive"
	// FixedWorkloadSpread leaves pods that can't be scheduled where they are.
	FixedWorkloadSpread WorkloadSpreadScheduleStrategyType = "Fixed"
)

// AdaptiveWorkloadSpreadStrategy configures the type Adaptive.
type AdaptiveWorkloadSpreadStrategy struct {
	// disableSimulationSchedule has no effect: scheduling is never simulated.
	// +optional
	DisableSimulationSchedule bool `json:"disableSimulationSchedule,omitempty"`

	// rescheduleCriticalSeconds specifies how long a pod may be unschedulable before it is deleted, in seconds. If unset, no pod is deleted.
	// +optional
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
}

// WorkloadSpreadOverflowPolicy specifies what happens to a new pod if all subsets are full.
//
// +kubebuilder:validation:Enum=Create;Refuse
type WorkloadSpreadOverflowPolicy string

// Values of overflowPolicy.
const (
	// OverflowCreate creates the pod as its workload specifies it, without a subset.
	OverflowCreate WorkloadSpreadOverflowPolicy = "Create"
	// OverflowRefuse rejects the pod; its workload retries.
	OverflowRefuse WorkloadSpreadOverflowPolicy = "Refuse"
)

// WorkloadSpreadStatus is the most recently observed state of a WorkloadSpread.
type WorkloadSpreadStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// subsetStatuses are the statuses of the subsets, which count the pods of all versions.
	// +optional
	// +listType=atomic
	SubsetStatuses []WorkloadSpreadSubsetStatus `json:"subsetStatuses,omitempty"`

	// versionedSubsetStatuses are the statuses of the subsets by version of the pods. Pods of kinds that are not counted by version are listed
	// as version versionIgnored.
	// +optional
	VersionedSubsetStatuses map[string]WorkloadSpreadSubsetStatuses `json:"versionedSubsetStatuses,omitempty"`

	// conditions are the current conditions: Active, Ready, Reconciling and Stalled, and on a hub also Placed and SubsetFailure.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadSpreadSubsetStatuses are the statuses of all subsets.
//
// +listType=atomic
//
// They are in the order of the spec.
type WorkloadSpreadSubsetStatuses []WorkloadSpreadSubsetStatus

// WorkloadSpreadSubsetStatus is the observed state of one subset.
type WorkloadSpreadSubsetStatus struct {
	// name is the name of the subset.
	// +required
	Name string `json:"name"`

	// conditions are the current conditions of the subset: Schedulable, only with type Adaptive.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// replicas is the number of active pods in the subset.
	// +required
	Replicas int32 `json:"replicas"`

	// missingReplicas is the number of pods that still fit into the subset. It is -1 if there is no limit.
	// +required
	MissingReplicas int32 `json:"missingReplicas"`

	// cluster is the name of the MemberCluster that runs the subset. It is set only on a hub.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// stale is true while the cluster doesn't respond, so that the numbers are out of date. It is set only on a hub.
	// +optional
	Stale bool `json:"stale,omitempty"`

	// unschedulableReplicas is the number of pods that could not be scheduled for rescheduleCriticalSeconds or longer and that move to the
	// next cluster. Pods that another subset of the same cluster takes first are not counted. It is set only on a hub, and in objects that a
	// hub has sent to a member.
	// +optional
	UnschedulableReplicas int32 `json:"unschedulableReplicas,omitempty"`

	// creatingPods are the pods that were admitted but not observed yet, with the time of their admission. Keys are pod names, or UIDs if the
	// name was not known.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`

	// deletingPods contains old records of deletions. Nothing is recorded here anymore.
	// +optional
	DeletingPods map[string]metav1.Time `json:"deletingPods,omitempty"`
}

// WorkloadSpreadActive is a condition that is True while new pods of the workload are spread.
const WorkloadSpreadActive = "Active"

// Conditions of a WorkloadSpread over clusters, on a hub.
const (
	// WorkloadSpreadPlaced is a condition that is True while every replica is in the cluster where it should run.
	WorkloadSpreadPlaced = "Placed"
	// WorkloadSpreadFailure is a condition that is True while a subset isn't in the desired state.
	WorkloadSpreadFailure = "SubsetFailure"
)

// WorkloadSpreadSubsetSchedulable is a condition of a subset that is True while pods are scheduled there. While it is False, new pods go to
// other subsets.
const WorkloadSpreadSubsetSchedulable = "Schedulable"

// WorkloadSpread spreads the pods of one workload over subsets: groups of nodes, each with a maximum number of pods.
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
