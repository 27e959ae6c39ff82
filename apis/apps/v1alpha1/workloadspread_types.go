package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
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
	TargetRef appsv1beta1.WorkloadSpreadTarget `json:"targetRef"`

	// subsets are the subsets in order of priority. A new pod goes to the first one that has room.
	// +required
	// +listType=atomic
	Subsets []WorkloadSpreadSubset `json:"subsets"`

	// targetFilter restricts the WorkloadSpread to a part of the workload's pods.
	// +optional
	TargetFilter *appsv1beta1.WorkloadSpreadTargetFilter `json:"targetFilter,omitempty"`

	// scheduleStrategy configures what happens to pods that can't be scheduled.
	// +optional
	ScheduleStrategy appsv1beta1.WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitempty"`

	// overflowPolicy specifies what happens to a new pod if all subsets are full. Create creates the pod without a subset. Refuse rejects it,
	// and the workload retries. Defaults to Create.
	// +optional
	OverflowPolicy appsv1beta1.WorkloadSpreadOverflowPolicy `json:"overflowPolicy,omitempty"`

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

	// requiredNodeSelectorTerm restricts the nodes for the pods of the subset. It is added to each required node affinity term of a pod.
	// +optional
	RequiredNodeSelectorTerm *corev1.NodeSelectorTerm `json:"requiredNodeSelectorTerm,omitempty"`

	// preferredNodeSelectorTerms are the nodes that are preferred for the pods of the subset.
	// +optional
	// +listType=atomic
	PreferredNodeSelectorTerms []corev1.PreferredSchedulingTerm `json:"preferredNodeSelectorTerms,omitempty"`

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
	// +listType=atomic
	Conditions []WorkloadSpreadSubsetCondition `json:"conditions,omitempty"`

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

// WorkloadSpreadSubsetCondition describes one aspect of the state of a subset.
type WorkloadSpreadSubsetCondition struct {
	// type is the type of the condition: Schedulable.
	// +required
	Type string `json:"type"`

	// status is the status of the condition: True or False.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// lastTransitionTime is the last time at which the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is a CamelCase word that identifies the cause.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is a human-readable explanation.
	// +optional
	Message string `json:"message,omitempty"`
}

// WorkloadSpread spreads the pods of one workload over subsets: groups of nodes, each with a maximum number of pods.
//
// +kubebuilder:object:root=true
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
