package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
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
	UpdateStrategy appsv1beta1.UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no subset uses. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
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
	Subsets []appsv1beta1.Subset `json:"subsets,omitempty"`

	// scheduleStrategy is how replicas are divided when pods of a subset can't be scheduled.
	// +optional
	ScheduleStrategy ScheduleStrategy `json:"scheduleStrategy,omitempty"`

	// placement is how a hub moves replicas between clusters. Only with subsets that name a cluster.
	// +optional
	Placement *pods.Placement `json:"placement,omitempty"`

	// dependencies is whether a hub places what the pods need in their namespace in the same clusters, by a Propagation that the object
	// owns: Off (default) or Auto. Only with subsets that name a cluster.
	// +optional
	Dependencies appsv1beta1.SubsetDependencies `json:"dependencies,omitempty"`
}

// ScheduleStrategy is whether the division of replicas follows what can be scheduled.
type ScheduleStrategy struct {
	// type is Fixed (default) or Adaptive.
	// +optional
	Type appsv1beta1.UnitedDeploymentScheduleStrategyType `json:"type,omitempty"`

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

	// unschedulableLastSeconds is the name of unschedulableDuration in OpenKruise up to 1.8. It has no effect beside unschedulableDuration.
	// +optional
	UnschedulableLastSeconds *int32 `json:"unschedulableLastSeconds,omitempty"`

	// reserveUnschedulablePods keeps pending pods and starts replacements elsewhere until they run, instead of moving
	// them. Only with CloneSet and Deployment templates. Default false.
	// +optional
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// SubsetTemplate is the workload of each subset: exactly one member is set. Its replicas and partition are set for each
// subset by the controller.
//
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.advancedStatefulSetTemplate), has(self.cloneSetTemplate), has(self.deploymentTemplate)].filter(set, set).size() == 1",message="template needs exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate"
type SubsetTemplate struct {
	// statefulSetTemplate makes each subset a StatefulSet of apps/v1.
	// +optional
	StatefulSetTemplate *appsv1beta1.StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`

	// advancedStatefulSetTemplate makes each subset a StatefulSet of apps.kruise.io, in v1beta1.
	// +optional
	AdvancedStatefulSetTemplate *appsv1beta1.AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`

	// cloneSetTemplate makes each subset a CloneSet.
	// +optional
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`

	// deploymentTemplate makes each subset a Deployment of apps/v1.
	// +optional
	DeploymentTemplate *appsv1beta1.DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
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
	Spec SubsetCloneSetSpec `json:"spec"`
}

// SubsetCloneSetSpec is a CloneSetSpec of v1alpha1 that may also use the fields of v1beta1. Users have manifests with
// either: the flat form, which belongs to this version, and the nested one, which the schema of this kind's v1alpha1 has
// always had. Where both are set, the fields of v1beta1 take precedence.
type SubsetCloneSetSpec struct {
	// replicas is overwritten for each subset.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector is overwritten for each subset.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template describes the pods to create (a PodTemplateSpec). Its restartPolicy must be Always.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the PVCs that each pod gets (a list of PersistentVolumeClaim).
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// scaleStrategy is how pods are added and removed.
	// +optional
	ScaleStrategy SubsetCloneSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// updateStrategy is how pods are updated to the revision of template.
	// +optional
	UpdateStrategy SubsetCloneSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// minReadySeconds is how long a pod must be ready before it counts as available, in seconds. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is for how long a rollout may take before the condition Progressing turns False. Unset,
	// or 2147483647: there is no deadline and no such condition.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// lifecycle configures hooks that hold pods before deletion, before and after an in-place update, and after creation.
	// +optional
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// SubsetCloneSetScaleStrategy is a CloneSetScaleStrategy with the fields of v1beta1 besides its own.
type SubsetCloneSetScaleStrategy struct {
	CloneSetScaleStrategy `json:",inline"`

	// enablePVCReuse is as in v1beta1. Unset: the opposite of disablePVCReuse; if set, it takes precedence.
	// +optional
	EnablePVCReuse *bool `json:"enablePVCReuse,omitempty"`

	// excludePreparingDelete is as in v1beta1. Unset: as the label keys.CloneSetExcludePreparingDelete in metadata of the
	// template says; if set, it takes precedence.
	// +optional
	ExcludePreparingDelete *bool `json:"excludePreparingDelete,omitempty"`
}

// SubsetCloneSetUpdateStrategy is a CloneSetUpdateStrategy with the fields of v1beta1 besides its own.
type SubsetCloneSetUpdateStrategy struct {
	CloneSetUpdateStrategy `json:",inline"`

	// rollingUpdate is as in v1beta1. Each field that it sets takes precedence over its flat counterpart; podUpdatePolicy
	// takes precedence over type.
	// +optional
	RollingUpdate *appsv1beta1.CloneSetRollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// UnitedDeploymentStatus is the observed state of a UnitedDeployment: as in v1beta1, but for the last two fields.
type UnitedDeploymentStatus struct {
	// observedGeneration is the generation of the spec that the status describes. On a hub it advances when every reachable cluster has
	// applied the generation.
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

	// updatedReplicas is the number of pods at the updated revision over all subsets.
	// +required
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// updatedReadyReplicas is the number of pods at the updated revision that are ready, over all subsets.
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

	// collisionCount is the number of times that the name of a new ControllerRevision was already taken. It is included in the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// subsetStatuses are the subsets one by one. On a hub a subset with a clusterSelector has one for each cluster; at
	// most 200 are listed, those that need attention first.
	// +optional
	// +listType=atomic
	SubsetStatuses []appsv1beta1.SubsetStatus `json:"subsetStatuses,omitempty"`

	// conditions are the latest observations of the UnitedDeployment's state.
	// +optional
	// +listType=atomic
	Conditions []appsv1beta1.UnitedDeploymentCondition `json:"conditions,omitempty"`

	// labelSelector selects the pods of all subsets, as a string, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`

	// subsetReplicas is replicas of each entry of subsetStatuses, by its name. It is computed from there.
	// +optional
	SubsetReplicas map[string]int32 `json:"subsetReplicas,omitempty"`

	// updateStatus is the progress of the update. It is computed from the rest of the status.
	// +optional
	UpdateStatus *UpdateStatus `json:"updateStatus,omitempty"`
}

// UpdateStatus is the progress of an update.
type UpdateStatus struct {
	// updatedRevision is the name of the ControllerRevision of spec.template.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`

	// currentPartitions is partition of each entry of subsetStatuses, by its name.
	// +optional
	CurrentPartitions map[string]int32 `json:"currentPartitions,omitempty"`
}

// UnitedDeployment divides replicas over subsets and runs one workload for each: over zones or kinds of nodes in one
// cluster, or over the clusters of a fleet.
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
