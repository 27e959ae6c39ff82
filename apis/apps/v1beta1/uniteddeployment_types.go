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
//
// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy) || !has(self.updateStrategy.type) || self.updateStrategy.type != 'Waves' || (has(self.topology) && has(self.topology.subsets) && self.topology.subsets.exists(s, has(s.cluster) || has(s.clusterSelector)))",fieldPath=".updateStrategy.type",message="Waves need clusters: give each subset cluster or clusterSelector, or use Manual"
type UnitedDeploymentSpec struct {
	// replicas is the desired number of pods in all subsets together. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the pods of all subsets. It must not be empty and must match the labels of the template. It is immutable. The workload
	// of a subset gets it in addition to the label with the name of the subset.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="selector can't be changed: make a new UnitedDeployment"
	Selector *metav1.LabelSelector `json:"selector"`

	// template is the template of the workload that is created for each subset.
	// +optional
	Template SubsetTemplate `json:"template,omitempty"`

	// topology configures the subsets and how replicas are divided over them.
	// +optional
	Topology Topology `json:"topology,omitempty"`

	// updateStrategy configures how the subsets are updated to a new revision of template.
	// +optional
	UpdateStrategy UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no subset uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// SubsetTemplate is the template of the workload of each subset. Exactly one of its fields must be set. The controller sets replicas and
// partition for each subset.
//
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.advancedStatefulSetTemplate), has(self.cloneSetTemplate), has(self.deploymentTemplate)].filter(set, set).size() == 1",message="template needs exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate"
type SubsetTemplate struct {
	// statefulSetTemplate creates a StatefulSet of apps/v1 for each subset.
	// +optional
	StatefulSetTemplate *StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`

	// advancedStatefulSetTemplate creates a StatefulSet of apps.kruise.io/v1beta1 for each subset.
	// +optional
	AdvancedStatefulSetTemplate *AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`

	// cloneSetTemplate creates a CloneSet for each subset.
	// +optional
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`

	// deploymentTemplate creates a Deployment of apps/v1 for each subset.
	// +optional
	DeploymentTemplate *DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
}

// StatefulSetTemplateSpec is the metadata and spec of a StatefulSet of apps/v1.
type StatefulSetTemplateSpec struct {
	// metadata contains the labels and annotations of each StatefulSet. The labels must match the selector.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of each StatefulSet, without replicas and updateStrategy.rollingUpdate.partition.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec appsv1.StatefulSetSpec `json:"spec"`
}

// AdvancedStatefulSetTemplateSpec is the metadata and spec of a StatefulSet of apps.kruise.io.
type AdvancedStatefulSetTemplateSpec struct {
	// metadata contains the labels and annotations of each StatefulSet. The labels must match the selector.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of each StatefulSet, without replicas and updateStrategy.rollingUpdate.partition.
	// +required
	Spec StatefulSetSpec `json:"spec"`
}

// CloneSetTemplateSpec is the metadata and spec of a CloneSet.
type CloneSetTemplateSpec struct {
	// metadata contains the labels and annotations of each CloneSet. The labels must match the selector.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of each CloneSet. replicas and partition are overwritten for each subset.
	// +required
	Spec CloneSetSpec `json:"spec"`
}

// DeploymentTemplateSpec is the metadata and spec of a Deployment of apps/v1.
type DeploymentTemplateSpec struct {
	// metadata contains the labels and annotations of each Deployment. The labels must match the selector.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of each Deployment, without replicas.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec appsv1.DeploymentSpec `json:"spec"`
}

// Topology configures the subsets and how replicas are divided over them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || self.subsets.all(s, has(s.cluster) || has(s.clusterSelector)) || !self.subsets.exists(s, has(s.cluster) || has(s.clusterSelector))",message="either every subset names a cluster or none does: give each subset cluster or clusterSelector, or take them off all"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || !self.subsets.exists(s, has(s.replicas)) || !self.subsets.exists(s, has(s.minReplicas) || has(s.maxReplicas))",message="subsets say either replicas or minReplicas and maxReplicas: use one of the two forms in all subsets"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || !has(self.scheduleStrategy) || !has(self.scheduleStrategy.type) || self.scheduleStrategy.type != 'Adaptive' || !self.subsets.exists(s, has(s.replicas))",message="subsets can't say replicas with scheduleStrategy.type Adaptive: use minReplicas and maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || self.subsets.size() == 0 || self.subsets.exists(s, !has(s.maxReplicas) || has(s.cluster) || has(s.clusterSelector))",message="every subset has maxReplicas, so not every number of replicas fits: remove it from one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.placement) || (has(self.subsets) && self.subsets.exists(s, has(s.cluster) || has(s.clusterSelector)))",message="placement is about clusters: give each subset cluster or clusterSelector, or remove placement"
// +kubebuilder:validation:XValidation:rule="!has(self.dependencies) || self.dependencies == 'Off' || (has(self.subsets) && self.subsets.exists(s, has(s.cluster) || has(s.clusterSelector)))",fieldPath=".dependencies",message="dependencies are placed in clusters: give each subset cluster or clusterSelector, or remove dependencies"
type Topology struct {
	// subsets are the subsets that replicas are divided over. With minReplicas and maxReplicas, their order matters: the first ones are filled
	// first.
	// +optional
	// +listType=atomic
	Subsets []Subset `json:"subsets,omitempty"`

	// scheduleStrategy configures how replicas are divided if pods of a subset can't be scheduled.
	// +optional
	ScheduleStrategy UnitedDeploymentScheduleStrategy `json:"scheduleStrategy,omitempty"`

	// placement configures how a hub moves replicas between clusters. It requires subsets that name a cluster.
	// +optional
	Placement *pods.Placement `json:"placement,omitempty"`

	// dependencies specifies whether a hub also places the objects in the same namespace that the pods depend on, such as ConfigMaps, in the
	// clusters of the subsets. With Auto, they are placed by a Propagation that this object owns. With Off, they are not placed. It requires
	// subsets that name a cluster. Defaults to Off.
	// +optional
	Dependencies SubsetDependencies `json:"dependencies,omitempty"`
}

// SubsetDependencies specifies whether the dependencies of a subset's pods are placed with them.
// +kubebuilder:validation:Enum=Off;Auto
type SubsetDependencies string

// Policies for the dependencies of subsets.
const (
	// SubsetDependenciesOff means that nothing but the subsets is placed.
	SubsetDependenciesOff SubsetDependencies = "Off"
	// SubsetDependenciesAuto means that the objects that a Propagation with dependencies: Auto places together with a workload are placed in
	// the clusters of the subsets.
	SubsetDependenciesAuto SubsetDependencies = "Auto"
)

// Subset is one part of a UnitedDeployment. It has its own workload, on its own nodes or in its own cluster.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.cluster) && has(self.clusterSelector))",message="a subset has either cluster or clusterSelector: remove one of them"
type Subset struct {
	// name is the name of the subset. It must be a DNS label and unique in the list. It becomes part of the names and labels of the subset's
	// objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// nodeSelectorTerm restricts the nodes for the subset's pods. Its matchExpressions are added to each required node affinity term of the
	// template. It can't be changed while the subset exists.
	// +optional
	NodeSelectorTerm *corev1.NodeSelectorTerm `json:"nodeSelectorTerm,omitempty"`

	// tolerations are added to the tolerations of the template. They can't be changed while the subset exists.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// replicas is the number of pods of the subset. Value can be an absolute number (ex: 5) or a percentage of spec.replicas (ex: 10%, at most
	// 100%), which is rounded half up. Subsets without it share the remaining replicas evenly. It is mutually exclusive with minReplicas and
	// maxReplicas of any subset.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`

	// minReplicas is the number of replicas that the subset gets before any subset gets more than its minReplicas. Value can be an absolute
	// number (ex: 5) or a percentage of spec.replicas (ex: 10%, at most 100%). It must not exceed maxReplicas. Defaults to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	MinReplicas *intstr.IntOrString `json:"minReplicas,omitempty"`

	// maxReplicas is the maximum number of replicas of the subset. Value can be an absolute number (ex: 5) or a percentage of spec.replicas
	// (ex: 10%, at most 100%). If unset, there is no limit. Unless the subsets name clusters, it must be unset in at least one subset.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// patch is a strategic merge patch for the subset's pod template, which is applied after everything else.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// ordinals are the ordinals that pods of the subset may have, so that no pod of another subset has the same ordinal. It requires
	// advancedStatefulSetTemplate. It can't be changed while the subset exists. A hub sets it in the objects that it sends to members, and
	// rejects it in its own. If unset, pods are numbered as configured in the template.
	// +optional
	Ordinals *SubsetOrdinals `json:"ordinals,omitempty"`

	// cluster is the name of the MemberCluster that runs the subset. It is allowed only on a hub, and mutually exclusive with clusterSelector.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster,omitempty"`

	// clusterSelector creates a subset named <name>-<cluster> in each MemberCluster with matching labels. replicas, minReplicas, maxReplicas
	// and the partition apply to all of them together. An empty selector matches every cluster. It is allowed only on a hub, and mutually
	// exclusive with cluster.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// SubsetOrdinals is a range of ordinals that includes both ends. The reserveOrdinals of the template are excluded from it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.end >= self.start",fieldPath=".end",message="the range runs backwards: end must be start or more"
type SubsetOrdinals struct {
	// start is the lowest ordinal.
	// +required
	// +kubebuilder:validation:Minimum=0
	Start int32 `json:"start"`

	// end is the highest ordinal. If unset, the range has no upper end.
	// +optional
	// +kubebuilder:validation:Minimum=0
	End *int32 `json:"end,omitempty"`
}

// UnitedDeploymentScheduleStrategyType specifies whether replicas move when pods can't be scheduled.
//
// +kubebuilder:validation:Enum=Adaptive;Fixed;""
type UnitedDeploymentScheduleStrategyType string

// Types of UnitedDeploymentScheduleStrategy.
const (
	// ScheduleFixed means that replicas are divided only by the numbers in the subsets.
	ScheduleFixed UnitedDeploymentScheduleStrategyType = "Fixed"
	// ScheduleAdaptive means that pods that can't be scheduled in their subset move to another one.
	ScheduleAdaptive UnitedDeploymentScheduleStrategyType = "Adaptive"
)

// UnitedDeploymentScheduleStrategy configures whether replicas move when pods can't be scheduled.
type UnitedDeploymentScheduleStrategy struct {
	// type specifies how replicas are divided. With Fixed, only the numbers in the subsets count. With Adaptive, pods that can't be scheduled
	// in their subset move to another one. Defaults to Fixed.
	// +optional
	Type UnitedDeploymentScheduleStrategyType `json:"type,omitempty"`

	// adaptive configures the type Adaptive.
	// +optional
	Adaptive *AdaptiveScheduleStrategy `json:"adaptive,omitempty"`
}

// AdaptiveScheduleStrategy configures how replicas leave a subset whose pods can't be scheduled.
type AdaptiveScheduleStrategy struct {
	// rescheduleCriticalSeconds specifies how long a pod may be pending before its subset counts as unschedulable, in seconds. Defaults to 30.
	// +optional
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`

	// unschedulableDuration specifies how long a subset then counts as unschedulable, in seconds. With reserveUnschedulablePods, it is also
	// how long a reserved pod must be ready before its replacement is deleted. Defaults to 300.
	// +optional
	UnschedulableDuration *int32 `json:"unschedulableDuration,omitempty"`

	// reserveUnschedulablePods keeps pending pods and creates replacements elsewhere until they run, instead of moving them. It requires a
	// CloneSet or Deployment template. Defaults to false.
	// +optional
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// UnitedDeploymentUpdateStrategyType is the type of an update strategy.
//
// +kubebuilder:validation:Enum=Manual;Waves;""
type UnitedDeploymentUpdateStrategyType string

// Types of UnitedDeploymentUpdateStrategy.
const (
	// ManualUpdateStrategyType means that the user decides with manualUpdate.partitions.
	ManualUpdateStrategyType UnitedDeploymentUpdateStrategyType = "Manual"
	// WavesUpdateStrategyType means that a hub rolls out a new revision over the clusters, within the limits of rollout.
	WavesUpdateStrategyType UnitedDeploymentUpdateStrategyType = "Waves"
)

// UnitedDeploymentUpdateStrategy configures how the subsets are updated to a new revision.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || (has(self.type) && self.type == 'Waves')",fieldPath=".rollout",message="rollout configures the type Waves: set type to Waves, or remove rollout"
// +kubebuilder:validation:XValidation:rule="!has(self.manualUpdate) || !has(self.type) || self.type != 'Waves'",fieldPath=".manualUpdate",message="manualUpdate configures the type Manual: use rollout.partition with the type Waves, or remove manualUpdate"
type UnitedDeploymentUpdateStrategy struct {
	// type is the type of the update. With Manual, each subset is updated by its own controller as far as manualUpdate allows. With Waves, a
	// hub rolls out a new revision over the clusters, within the limits of rollout; this requires subsets that name a cluster. Defaults to
	// Manual.
	// +optional
	Type UnitedDeploymentUpdateStrategyType `json:"type,omitempty"`

	// manualUpdate configures the type Manual.
	// +optional
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`

	// rollout configures the type Waves.
	// +optional
	Rollout *pods.RolloutPlan `json:"rollout,omitempty"`
}

// ManualUpdate configures how far each subset is updated.
type ManualUpdate struct {
	// partitions contains the number of pods that stay at the old revision, by the name of the subset. Each name must be in topology.subsets.
	// Subsets that are not listed have 0. A value above the replicas of the subset counts as all of them. Partitions have no effect on
	// Deployments, or with updateStrategy OnDelete in the template.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(subset, self[subset] >= 0)",message="a partition can't be negative: use 0 to update the whole subset"
	Partitions map[string]int32 `json:"partitions,omitempty"`

	// maxUnavailable contains the maximum number of pods of a subset that may be unavailable during an update, by the name of the subset. Each
	// name must be in topology.subsets, and subsets that name clusters can't have one. It replaces the maxUnavailable of the template, but
	// never raises the one of a StatefulSet of apps/v1. With 0 no further pod of the subset is updated, and the subset is still scaled. Subsets that are
	// not listed use the template. StatefulSets that update one pod at a time continue to do so. It has no effect with updateStrategy OnDelete in
	// the template, and with strategy Recreate only 0 has an effect.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(subset, self[subset] >= 0)",message="maxUnavailable can't be negative: use 0 to stop the update of a subset"
	MaxUnavailable map[string]int32 `json:"maxUnavailable,omitempty"`
}

// UnitedDeploymentStatus is the observed state of a UnitedDeployment.
type UnitedDeploymentStatus struct {
	// observedGeneration is the generation of the spec that the status describes. On a hub it advances when every reachable cluster has
	// applied the generation.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of pods in all subsets, excluding reserved pods.
	// +required
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of ready pods in all subsets.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of available pods in all subsets.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// updatedReplicas is the number of pods at updatedRevision in all subsets.
	// +required
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// updatedReadyReplicas is the number of ready pods at updatedRevision in all subsets.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`

	// updatedAvailableReplicas is the number of available pods at updatedRevision in all subsets.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`

	// reservedPods is the number of pods in all subsets that are kept although they can't be scheduled.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`

	// unallocatedReplicas is the number of replicas in spec.replicas that no cluster can take, because every subset is at its maxReplicas or
	// because the numbers in the subsets don't add up to spec.replicas. It is set only on a hub.
	// +optional
	UnallocatedReplicas int32 `json:"unallocatedReplicas,omitempty"`

	// staleClusters is the number of unreachable clusters, whose part of the status is out of date. It is set only on a hub.
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

	// rollout is the progress of the rollout over the clusters. It is set only on a hub, with the type Waves.
	// +optional
	Rollout *pods.RolloutStatus `json:"rollout,omitempty"`

	// subsetStatuses are the statuses of the subsets. On a hub, a subset with a clusterSelector has one for each cluster. At most 200 are
	// listed, starting with those that need attention.
	// +optional
	// +listType=atomic
	SubsetStatuses []SubsetStatus `json:"subsetStatuses,omitempty"`

	// conditions are the latest observations of the UnitedDeployment's state.
	// +optional
	// +listType=atomic
	Conditions []UnitedDeploymentCondition `json:"conditions,omitempty"`

	// labelSelector is the selector of the pods of all subsets in string form, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// SubsetStatus is the observed state of one subset.
type SubsetStatus struct {
	// name is the name of the subset. On a hub, it is <name>-<cluster> for a subset with a clusterSelector.
	// +optional
	Name string `json:"name,omitempty"`

	// cluster is the name of the MemberCluster that runs the subset. It is set only on a hub.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// stale is true while the cluster can't be reached. The numbers are then the last reported ones. It is set only on a hub.
	// +optional
	Stale bool `json:"stale,omitempty"`

	// observedGeneration is the generation of this object that the subset's cluster applied last. It is set only on a hub.
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

	// updatedAvailableReplicas is the number of pods at updatedRevision that are available.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`

	// partition is the number of pods that stay at the old revision.
	// +optional
	Partition int32 `json:"partition,omitempty"`

	// reservedPods is the number of pods that are kept although they can't be scheduled.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`

	// reason is a short explanation of why the subset isn't in the desired state. It is empty if nothing blocks the subset. It is set only on
	// a hub.
	// +optional
	Reason string `json:"reason,omitempty"`

	// conditions are the latest observations of the subset's state.
	// +optional
	// +listType=atomic
	Conditions []SubsetCondition `json:"conditions,omitempty"`
}

// SubsetConditionType is the type of a condition of a subset.
type SubsetConditionType string

// SubsetSchedulable is True while pods of the subset can be scheduled. It is False for adaptive.unschedulableDuration after a pod could
// not.
const SubsetSchedulable SubsetConditionType = "Schedulable"

// SubsetCondition describes one aspect of the state of a subset.
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
	// SubsetProvisioned means that every subset has its workload and that there are no other workloads left.
	SubsetProvisioned UnitedDeploymentConditionType = "SubsetProvisioned"
	// SubsetUpdated means that the workloads of all subsets match the template.
	SubsetUpdated UnitedDeploymentConditionType = "SubsetUpdated"
	// SubsetFailure means that the workload of a subset could not be created, updated or deleted.
	SubsetFailure UnitedDeploymentConditionType = "SubsetFailure"
	// UnitedDeploymentUpdated means that updatedRevision is rolled out to all subsets.
	UnitedDeploymentUpdated UnitedDeploymentConditionType = "UnitedDeploymentUpdated"
	// UnitedDeploymentPlaced means that every replica has a cluster. It exists only on a hub.
	UnitedDeploymentPlaced UnitedDeploymentConditionType = "Placed"
)

// UnitedDeploymentCondition describes one aspect of the state of a UnitedDeployment.
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

// UnitedDeployment divides replicas over subsets and runs a workload for each of them. Subsets can be zones or kinds of nodes in one
// cluster, or clusters of a fleet.
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
