package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// UnitedDeploymentSpec is the desired state of a UnitedDeployment.
type UnitedDeploymentSpec struct {
	// replicas is the desired number of pods over all subsets. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the pods of all subsets. It must not be empty and must match the labels of the template; it can't
	// be changed. A subset's workload gets it together with the label of the subset's name.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="selector can't be changed: make a new UnitedDeployment"
	Selector *metav1.LabelSelector `json:"selector"`

	// template is the workload that each subset gets.
	// +optional
	Template SubsetTemplate `json:"template,omitempty"`

	// topology is the list of subsets and how replicas are divided over them.
	// +optional
	Topology Topology `json:"topology,omitempty"`

	// updateStrategy is how the subsets are updated to a new revision of template.
	// +optional
	UpdateStrategy UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no subset uses. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// SubsetTemplate is the workload of each subset: exactly one member is set. Its replicas and partition are set for each
// subset by the controller.
//
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.advancedStatefulSetTemplate), has(self.cloneSetTemplate), has(self.deploymentTemplate)].filter(set, set).size() == 1",message="template needs exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate"
type SubsetTemplate struct {
	// statefulSetTemplate makes each subset a StatefulSet of apps/v1.
	// +optional
	StatefulSetTemplate *StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`

	// advancedStatefulSetTemplate makes each subset a StatefulSet of apps.kruise.io, in v1beta1.
	// +optional
	AdvancedStatefulSetTemplate *AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`

	// cloneSetTemplate makes each subset a CloneSet.
	// +optional
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`

	// deploymentTemplate makes each subset a Deployment of apps/v1.
	// +optional
	DeploymentTemplate *DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
}

// StatefulSetTemplateSpec is the metadata and spec of a StatefulSet of apps/v1.
type StatefulSetTemplateSpec struct {
	// metadata holds the labels and annotations of each StatefulSet. The labels must match the selector.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the StatefulSet's, without replicas and updateStrategy.rollingUpdate.partition.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec appsv1.StatefulSetSpec `json:"spec"`
}

// AdvancedStatefulSetTemplateSpec is the metadata and spec of a StatefulSet of apps.kruise.io.
type AdvancedStatefulSetTemplateSpec struct {
	// metadata holds the labels and annotations of each StatefulSet. The labels must match the selector.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the StatefulSet's, without replicas and updateStrategy.rollingUpdate.partition.
	// +required
	Spec StatefulSetSpec `json:"spec"`
}

// CloneSetTemplateSpec is the metadata and spec of a CloneSet.
type CloneSetTemplateSpec struct {
	// metadata holds the labels and annotations of each CloneSet. The labels must match the selector.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the CloneSet's. Its replicas and partition are overwritten for each subset.
	// +required
	Spec CloneSetSpec `json:"spec"`
}

// DeploymentTemplateSpec is the metadata and spec of a Deployment of apps/v1.
type DeploymentTemplateSpec struct {
	// metadata holds the labels and annotations of each Deployment. The labels must match the selector.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the Deployment's, without replicas.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec appsv1.DeploymentSpec `json:"spec"`
}

// Topology is the list of subsets and how replicas are divided over them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || self.subsets.all(s, has(s.cluster) || has(s.clusterSelector)) || !self.subsets.exists(s, has(s.cluster) || has(s.clusterSelector))",message="either every subset names a cluster or none does: give each subset cluster or clusterSelector, or take them off all"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || !self.subsets.exists(s, has(s.replicas)) || !self.subsets.exists(s, has(s.minReplicas) || has(s.maxReplicas))",message="subsets say either replicas or minReplicas and maxReplicas: use one of the two forms in all subsets"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || !has(self.scheduleStrategy) || !has(self.scheduleStrategy.type) || self.scheduleStrategy.type != 'Adaptive' || !self.subsets.exists(s, has(s.replicas))",message="subsets can't say replicas with scheduleStrategy.type Adaptive: use minReplicas and maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || self.subsets.size() == 0 || self.subsets.exists(s, !has(s.maxReplicas) || has(s.cluster) || has(s.clusterSelector))",message="every subset has maxReplicas, so not every number of replicas fits: remove it from one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.placement) || (has(self.subsets) && self.subsets.exists(s, has(s.cluster) || has(s.clusterSelector)))",message="placement is about clusters: give each subset cluster or clusterSelector, or remove placement"
// +kubebuilder:validation:XValidation:rule="!has(self.dependencies) || self.dependencies == 'Off' || (has(self.subsets) && self.subsets.exists(s, has(s.cluster) || has(s.clusterSelector)))",fieldPath=".dependencies",message="dependencies are placed in clusters: give each subset cluster or clusterSelector, or remove dependencies"
type Topology struct {
	// subsets are the parts that replicas are divided over. Their order counts where minReplicas and maxReplicas are used:
	// the first are filled first.
	// +optional
	// +listType=atomic
	Subsets []Subset `json:"subsets,omitempty"`

	// scheduleStrategy is how replicas are divided when pods of a subset can't be scheduled.
	// +optional
	ScheduleStrategy UnitedDeploymentScheduleStrategy `json:"scheduleStrategy,omitempty"`

	// placement is how a hub moves replicas between clusters. Only with subsets that name a cluster.
	// +optional
	Placement *pods.Placement `json:"placement,omitempty"`

	// dependencies is whether a hub places what the pods need in their namespace in the same clusters, by a Propagation that the object
	// owns: Off (default) or Auto. Only with subsets that name a cluster.
	// +optional
	Dependencies SubsetDependencies `json:"dependencies,omitempty"`
}

// SubsetDependencies is whether what the pods of subsets need is placed with them.
// +kubebuilder:validation:Enum=Off;Auto
type SubsetDependencies string

// Policies for what pods of subsets need.
const (
	// SubsetDependenciesOff: nothing is placed but the subsets.
	SubsetDependenciesOff SubsetDependencies = "Off"
	// SubsetDependenciesAuto: what a Propagation with dependencies: Auto places with a workload is placed in the clusters of the subsets.
	SubsetDependenciesAuto SubsetDependencies = "Auto"
)

// Subset is one part of a UnitedDeployment: a workload of its own, with its own nodes or its own cluster.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.cluster) && has(self.clusterSelector))",message="a subset has either cluster or clusterSelector: remove one of them"
type Subset struct {
	// name is the subset's name, unique in the list: a DNS label. It becomes part of names and labels of the subset's objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// nodeSelectorTerm is where pods of the subset may run: its matchExpressions are added to each required node affinity
	// term of the template. It can't be changed while the subset exists.
	// +optional
	NodeSelectorTerm *corev1.NodeSelectorTerm `json:"nodeSelectorTerm,omitempty"`

	// tolerations are added to those of the template. They can't be changed while the subset exists.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// replicas is the number of pods of this subset: a number from 0 or a percentage of spec.replicas from 0% to 100%,
	// rounded half up. Subsets without it share the rest evenly. It is mutually exclusive with minReplicas
	// and maxReplicas of any subset.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`

	// minReplicas is what this subset gets before any subset gets more: a number from 0 or a percentage of spec.replicas
	// from 0% to 100%, not more than maxReplicas. Default 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	MinReplicas *intstr.IntOrString `json:"minReplicas,omitempty"`

	// maxReplicas is the most that this subset gets: a number from 0 or a percentage of spec.replicas from 0% to 100%.
	// Unset: no limit. Without clusters at least one subset must be without it.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// patch is a strategic merge patch on the subset's pod template, applied after everything else.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// ordinals are those that pods of the subset may have, so that no pod of another subset has the same. Only with
	// advancedStatefulSetTemplate. It can't be changed while the subset exists. A hub sets it in the slices that it sends
	// and refuses it in its own objects. Unset: pods are numbered as the template says.
	// +optional
	Ordinals *SubsetOrdinals `json:"ordinals,omitempty"`

	// cluster is the MemberCluster that runs this subset. Only on a hub; mutually exclusive with clusterSelector.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster,omitempty"`

	// clusterSelector makes one subset of this one in each MemberCluster whose labels match, named <name>-<cluster>.
	// replicas, minReplicas, maxReplicas and the partition hold for all of them together. An empty selector matches
	// every cluster. Only on a hub; mutually exclusive with cluster.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// SubsetOrdinals is a range of ordinals with both ends included. The template's reserveOrdinals are left out of it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.end >= self.start",fieldPath=".end",message="the range runs backwards: end must be start or more"
type SubsetOrdinals struct {
	// start is the lowest ordinal.
	// +required
	// +kubebuilder:validation:Minimum=0
	Start int32 `json:"start"`

	// end is the highest ordinal. Unset: there is none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	End *int32 `json:"end,omitempty"`
}

// UnitedDeploymentScheduleStrategyType is whether the division of replicas follows what can be scheduled.
//
// +kubebuilder:validation:Enum=Adaptive;Fixed;""
type UnitedDeploymentScheduleStrategyType string

// Types of UnitedDeploymentScheduleStrategy.
const (
	// ScheduleFixed: replicas are divided by the numbers of the subsets alone.
	ScheduleFixed UnitedDeploymentScheduleStrategyType = "Fixed"
	// ScheduleAdaptive: pods that can't be scheduled in their subset are moved to another one.
	ScheduleAdaptive UnitedDeploymentScheduleStrategyType = "Adaptive"
)

// UnitedDeploymentScheduleStrategy is whether the division of replicas follows what can be scheduled.
type UnitedDeploymentScheduleStrategy struct {
	// type is Fixed (default) or Adaptive.
	// +optional
	Type UnitedDeploymentScheduleStrategyType `json:"type,omitempty"`

	// adaptive tunes the type Adaptive.
	// +optional
	Adaptive *AdaptiveScheduleStrategy `json:"adaptive,omitempty"`
}

// AdaptiveScheduleStrategy tunes how replicas leave a subset whose pods can't be scheduled.
type AdaptiveScheduleStrategy struct {
	// rescheduleCriticalSeconds is for how long a pod may be pending before its subset counts as unschedulable.
	// Default 30.
	// +optional
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`

	// unschedulableDuration is for how many seconds a subset then counts as unschedulable, and with reserveUnschedulablePods for
	// how many seconds a reserved pod has to be ready until its replacement goes. Default 300.
	// +optional
	UnschedulableDuration *int32 `json:"unschedulableDuration,omitempty"`

	// reserveUnschedulablePods keeps pending pods and starts replacements elsewhere until they run, instead of moving
	// them. Only with CloneSet and Deployment templates. Default false.
	// +optional
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// UnitedDeploymentUpdateStrategyType is who decides how far each subset is updated.
//
// +kubebuilder:validation:Enum=Manual;""
type UnitedDeploymentUpdateStrategyType string

// ManualUpdateStrategyType: the user decides, by manualUpdate.partitions.
const ManualUpdateStrategyType UnitedDeploymentUpdateStrategyType = "Manual"

// UnitedDeploymentUpdateStrategy is how the subsets are updated to a new revision.
type UnitedDeploymentUpdateStrategy struct {
	// type is Manual, also if empty.
	// +optional
	Type UnitedDeploymentUpdateStrategyType `json:"type,omitempty"`

	// manualUpdate tunes the type Manual.
	// +optional
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`
}

// ManualUpdate is how far each subset is updated.
type ManualUpdate struct {
	// partitions is how many pods of a subset stay at the old revision, by the subset's name. Each name must be in
	// topology.subsets; a subset that is not here has 0. A value above the subset's replicas counts as all of them.
	// Partitions have no effect on a Deployment, nor with updateStrategy OnDelete in the template.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(subset, self[subset] >= 0)",message="a partition can't be negative: use 0 to update the whole subset"
	Partitions map[string]int32 `json:"partitions,omitempty"`
}

// UnitedDeploymentStatus is the observed state of a UnitedDeployment.
type UnitedDeploymentStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the sum over all subsets, reserved pods excluded.
	// +required
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of ready pods over all subsets.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of available pods over all subsets.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// updatedReplicas is the number of pods at updatedRevision over all subsets.
	// +required
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// updatedReadyReplicas is the number of pods at updatedRevision that are ready, over all subsets.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`

	// reservedPods is the number of pods that are kept though they can't be scheduled, over all subsets.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`

	// unallocatedReplicas is how many replicas of spec.replicas no cluster may take: every subset is at its maxReplicas,
	// or the numbers of the subsets do not add up to spec.replicas. Only on a hub.
	// +optional
	UnallocatedReplicas int32 `json:"unallocatedReplicas,omitempty"`

	// staleClusters is the number of clusters whose part of this status is old because they can't be reached. Only on a
	// hub.
	// +optional
	StaleClusters int32 `json:"staleClusters,omitempty"`

	// currentRevision is the name of the ControllerRevision that was last rolled out to all pods.
	// +required
	CurrentRevision string `json:"currentRevision"`

	// updatedRevision is the name of the ControllerRevision of spec.template.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`

	// collisionCount is the number of times that the name of a new ControllerRevision was already taken. It is included in the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// subsetStatuses are the subsets one by one. On a hub a subset with a clusterSelector has one for each cluster; at
	// most 200 are listed, those that need attention first.
	// +optional
	// +listType=atomic
	SubsetStatuses []SubsetStatus `json:"subsetStatuses,omitempty"`

	// conditions are the latest observations of the UnitedDeployment's state.
	// +optional
	// +listType=atomic
	Conditions []UnitedDeploymentCondition `json:"conditions,omitempty"`

	// labelSelector selects the pods of all subsets, as a string, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// SubsetStatus is the observed state of one subset.
type SubsetStatus struct {
	// name is the subset's name; on a hub, of a subset with a clusterSelector, <name>-<cluster>.
	// +optional
	Name string `json:"name,omitempty"`

	// cluster is the name of the MemberCluster that runs the subset. It is set only on a hub.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// stale is true while the cluster can't be reached: the numbers are the last that were reported. Only on a hub.
	// +optional
	Stale bool `json:"stale,omitempty"`

	// observedGeneration is the metadata.generation of this object that the subset's cluster has applied last. Only on a
	// hub.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the desired number of pods of the subset.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of ready pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of available pods.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// updatedReplicas is the number of pods at updatedRevision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// updatedReadyReplicas is the number of pods at updatedRevision that are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`

	// partition is how many pods are kept at the old revision.
	// +optional
	Partition int32 `json:"partition,omitempty"`

	// reservedPods is the number of pods that are kept though they can't be scheduled.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`

	// reason is why the subset is not as desired, in a few words; empty if nothing blocks it. Only on a hub.
	// +optional
	Reason string `json:"reason,omitempty"`

	// conditions are the latest observations of the subset's state.
	// +optional
	// +listType=atomic
	Conditions []SubsetCondition `json:"conditions,omitempty"`
}

// SubsetConditionType is the type of a condition of a subset.
type SubsetConditionType string

// SubsetSchedulable: pods of the subset can be scheduled; False for adaptive.unschedulableDuration after one could not.
const SubsetSchedulable SubsetConditionType = "Schedulable"

// SubsetCondition is one observation of a subset's state.
type SubsetCondition struct {
	// type is the type of the condition.
	// +required
	Type SubsetConditionType `json:"type"`

	// status is the status of the condition: True, False or Unknown.
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

// UnitedDeploymentConditionType is the type of a condition of a UnitedDeployment.
type UnitedDeploymentConditionType string

// Conditions of a UnitedDeployment.
const (
	// SubsetProvisioned: every subset has its workload and no other workload is left.
	SubsetProvisioned UnitedDeploymentConditionType = "SubsetProvisioned"
	// SubsetUpdated: every subset's workload matches the template.
	SubsetUpdated UnitedDeploymentConditionType = "SubsetUpdated"
	// SubsetFailure: a subset's workload could not be created, updated or deleted.
	SubsetFailure UnitedDeploymentConditionType = "SubsetFailure"
	// UnitedDeploymentUpdated: all subsets are rolled out to updatedRevision.
	UnitedDeploymentUpdated UnitedDeploymentConditionType = "UnitedDeploymentUpdated"
	// UnitedDeploymentPlaced: every replica has a cluster. Only on a hub.
	UnitedDeploymentPlaced UnitedDeploymentConditionType = "Placed"
)

// UnitedDeploymentCondition is one observation of a UnitedDeployment's state.
type UnitedDeploymentCondition struct {
	// type is the type of the condition.
	// +optional
	Type UnitedDeploymentConditionType `json:"type,omitempty"`

	// status is the status of the condition: True, False or Unknown.
	// +optional
	Status corev1.ConditionStatus `json:"status,omitempty"`

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

// UnitedDeployment divides replicas over subsets and runs one workload for each: over zones or kinds of nodes in one
// cluster, or over the clusters of a fleet.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=ud
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type UnitedDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the UnitedDeployment.
	// +optional
	Spec UnitedDeploymentSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status UnitedDeploymentStatus `json:"status,omitempty"`
}

// UnitedDeploymentList is a list of UnitedDeployment.
//
// +kubebuilder:object:root=true
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UnitedDeployment `json:"items"`
}
