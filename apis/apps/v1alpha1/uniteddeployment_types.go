package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
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
	UpdateStrategy appsv1beta1.UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no subset uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
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
	Subsets []appsv1beta1.Subset `json:"subsets,omitempty"`

	// scheduleStrategy configures how replicas are divided if pods of a subset can't be scheduled.
	// +optional
	ScheduleStrategy ScheduleStrategy `json:"scheduleStrategy,omitempty"`

	// placement configures how a hub moves replicas between clusters. It requires subsets that name a cluster.
	// +optional
	Placement *pods.Placement `json:"placement,omitempty"`

	// dependencies specifies whether a hub also places the objects in the same namespace that the pods depend on, such as ConfigMaps, in the
	// clusters of the subsets. With Auto, they are placed by a Propagation that this object owns. With Off, they are not placed. It requires
	// subsets that name a cluster. Defaults to Off.
	// +optional
	Dependencies appsv1beta1.SubsetDependencies `json:"dependencies,omitempty"`
}

// ScheduleStrategy configures whether replicas move when pods can't be scheduled.
type ScheduleStrategy struct {
	// type specifies how replicas are divided. With Fixed, only the numbers in the subsets count. With Adaptive, pods that can't be scheduled
	// in their subset move to another one. Defaults to Fixed.
	// +optional
	Type appsv1beta1.UnitedDeploymentScheduleStrategyType `json:"type,omitempty"`

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

	// unschedulableLastSeconds is the name of unschedulableDuration in OpenKruise up to 1.8. It has no effect if unschedulableDuration is set.
	// +optional
	UnschedulableLastSeconds *int32 `json:"unschedulableLastSeconds,omitempty"`

	// reserveUnschedulablePods keeps pending pods and creates replacements elsewhere until they run, instead of moving them. It requires a
	// CloneSet or Deployment template. Defaults to false.
	// +optional
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// SubsetTemplate is the template of the workload of each subset. Exactly one of its fields must be set. The controller sets replicas and
// partition for each subset.
//
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.advancedStatefulSetTemplate), has(self.cloneSetTemplate), has(self.deploymentTemplate)].filter(set, set).size() == 1",message="template needs exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate"
type SubsetTemplate struct {
	// statefulSetTemplate creates a StatefulSet of apps/v1 for each subset.
	// +optional
	StatefulSetTemplate *appsv1beta1.StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`

	// advancedStatefulSetTemplate creates a StatefulSet of apps.kruise.io/v1beta1 for each subset.
	// +optional
	AdvancedStatefulSetTemplate *appsv1beta1.AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`

	// cloneSetTemplate creates a CloneSet for each subset.
	// +optional
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`

	// deploymentTemplate creates a Deployment of apps/v1 for each subset.
	// +optional
	DeploymentTemplate *appsv1beta1.DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
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
	Spec SubsetCloneSetSpec `json:"spec"`
}

// SubsetCloneSetSpec is a CloneSetSpec of v1alpha1 that may also use the fields of v1beta1. Users have manifests with both forms: the flat
// one, which belongs to this version, and the nested one, which has always been in the v1alpha1 schema of UnitedDeployment. If both are
// set, the fields of v1beta1 take precedence.
type SubsetCloneSetSpec struct {
	// replicas is overwritten for each subset.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector is overwritten for each subset.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template describes the pods to create, as a PodTemplateSpec. Its restartPolicy must be Always.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the PVCs that are created for each pod, as a list of PersistentVolumeClaims.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// scaleStrategy configures how pods are added and removed.
	// +optional
	ScaleStrategy SubsetCloneSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// updateStrategy configures how pods are updated to the revision of template.
	// +optional
	UpdateStrategy SubsetCloneSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// minReadySeconds specifies how long a pod must be ready before it counts as available, in seconds. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds specifies how long a rollout may make no progress before the condition Progressing becomes False, in seconds. If
	// unset or 2147483647, there is no deadline and the condition is not set.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// lifecycle configures hooks that hold pods before deletion, before and after an in-place update, and after creation.
	// +optional
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// SubsetCloneSetScaleStrategy is a CloneSetScaleStrategy that also has the fields of v1beta1.
type SubsetCloneSetScaleStrategy struct {
	CloneSetScaleStrategy `json:",inline"`

	// enablePVCReuse is the same field as in v1beta1. It takes precedence over disablePVCReuse. Defaults to the opposite of disablePVCReuse.
	// +optional
	EnablePVCReuse *bool `json:"enablePVCReuse,omitempty"`

	// excludePreparingDelete is the same field as in v1beta1. It takes precedence over the label keys.CloneSetExcludePreparingDelete in the
	// metadata of the template. Defaults to the value of that label.
	// +optional
	ExcludePreparingDelete *bool `json:"excludePreparingDelete,omitempty"`
}

// SubsetCloneSetUpdateStrategy is a CloneSetUpdateStrategy that also has the fields of v1beta1.
type SubsetCloneSetUpdateStrategy struct {
	CloneSetUpdateStrategy `json:",inline"`

	// rollingUpdate is the same field as in v1beta1. Each of its fields takes precedence over its flat counterpart, and podUpdatePolicy over
	// type.
	// +optional
	RollingUpdate *appsv1beta1.CloneSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// UnitedDeploymentStatus is the observed state of a UnitedDeployment. It is the same as in v1beta1, except for the last two fields.
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

	// updatedReplicas is the number of pods at the updated revision in all subsets.
	// +required
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// updatedReadyReplicas is the number of ready pods at the updated revision in all subsets.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`

	// updatedAvailableReplicas is the number of available pods at the updated revision in all subsets.
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
	SubsetStatuses []appsv1beta1.SubsetStatus `json:"subsetStatuses,omitempty"`

	// conditions are the latest observations of the UnitedDeployment's state.
	// +optional
	// +listType=atomic
	Conditions []appsv1beta1.UnitedDeploymentCondition `json:"conditions,omitempty"`

	// labelSelector is the selector of the pods of all subsets in string form, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`

	// subsetReplicas contains replicas of each entry of subsetStatuses, by name. It is calculated from subsetStatuses.
	// +optional
	SubsetReplicas map[string]int32 `json:"subsetReplicas,omitempty"`

	// updateStatus is the progress of the update. It is calculated from the rest of the status.
	// +optional
	UpdateStatus *UpdateStatus `json:"updateStatus,omitempty"`
}

// UpdateStatus is the progress of an update.
type UpdateStatus struct {
	// updatedRevision is the name of the ControllerRevision of spec.template.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`

	// currentPartitions contains partition of each entry of subsetStatuses, by name.
	// +optional
	CurrentPartitions map[string]int32 `json:"currentPartitions,omitempty"`
}

// UnitedDeployment divides replicas over subsets and runs a workload for each of them. Subsets can be zones or kinds of nodes in one
// cluster, or clusters of a fleet.
//
// +kubebuilder:object:root=true
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
