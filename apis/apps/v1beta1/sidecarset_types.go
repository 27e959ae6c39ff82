package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// SidecarSetSpec is the desired state of a SidecarSet.
type SidecarSetSpec struct {
	// selector selects the pods that get the sidecars, by their labels. It must not be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// namespaceSelector selects the namespaces of these pods, by the labels of the namespaces. Unset: all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// initContainers are added to the init containers of a pod when it is created. One with restartPolicy Always is a native sidecar.
	// +optional
	// +listType=atomic
	InitContainers []SidecarContainer `json:"initContainers,omitempty"`

	// containers are added to the containers of a pod when it is created.
	// +optional
	// +listType=atomic
	Containers []SidecarContainer `json:"containers,omitempty"`

	// volumes are those that the sidecars may mount. A pod gets those that a sidecar mounts.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// updateStrategy is how the sidecars of pods that exist are updated.
	// +optional
	UpdateStrategy SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// injectionStrategy is which revision new pods get.
	// +optional
	InjectionStrategy SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`

	// imagePullSecrets are added to those of a pod when it is created. The Secrets must exist in the pod's namespace.
	// +optional
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// revisionHistoryLimit is how many ControllerRevisions are kept, with the present one and beside those that pods have. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// patchPodMetadata are annotations that a pod gets with the sidecars.
	// +optional
	// +listType=atomic
	PatchPodMetadata []SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`

	// customVersion names the current revision, so that injectionStrategy can refer to it later.
	// +optional
	CustomVersion string `json:"customVersion,omitempty"`
}

// SidecarContainer is a container that is added to pods.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SidecarContainer struct {
	// +kubebuilder:validation:Schemaless
	corev1.Container `json:",inline"`

	// podInjectPolicy is where it is put: before or after the pod's own containers. Default BeforeAppContainer, for init
	// containers AfterAppContainer.
	// +optional
	PodInjectPolicy PodInjectPolicy `json:"podInjectPolicy,omitempty"`

	// upgradeStrategy is how it is updated in a running pod.
	// +optional
	UpgradeStrategy SidecarContainerUpgradeStrategy `json:"upgradeStrategy,omitempty"`

	// shareVolumePolicy is whether it mounts what the pod's own containers mount.
	// +optional
	ShareVolumePolicy ShareVolumePolicy `json:"shareVolumePolicy,omitempty"`

	// shareVolumeDevicePolicy is whether it gets the block devices of the pod's own containers.
	// +optional
	ShareVolumeDevicePolicy *ShareVolumePolicy `json:"shareVolumeDevicePolicy,omitempty"`

	// transferEnv are env variables that it takes over from other containers of the pod.
	// +optional
	// +listType=atomic
	TransferEnv []TransferEnvVar `json:"transferEnv,omitempty"`

	// resourcesPolicy computes its resources from those of the pod's own containers. Mutually exclusive with resources.
	// +optional
	ResourcesPolicy *SidecarResourcesPolicy `json:"resourcesPolicy,omitempty"`
}

// PodInjectPolicy is where a sidecar is put among a pod's containers.
type PodInjectPolicy string

// Values of podInjectPolicy.
const (
	// BeforeAppContainer puts it before the pod's own containers.
	BeforeAppContainer PodInjectPolicy = "BeforeAppContainer"
	// AfterAppContainer puts it after them.
	AfterAppContainer PodInjectPolicy = "AfterAppContainer"
)

// SidecarContainerUpgradeStrategy is how a sidecar is updated in a running pod.
type SidecarContainerUpgradeStrategy struct {
	// upgradeType is ColdUpgrade, the default, or HotUpgrade. It can't be changed.
	// +optional
	UpgradeType SidecarContainerUpgradeType `json:"upgradeType,omitempty"`

	// hotUpgradeEmptyImage is the image of the container that does not work, with HotUpgrade: one that does nothing.
	// +optional
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// SidecarContainerUpgradeType is a way to update a sidecar.
type SidecarContainerUpgradeType string

// Values of upgradeType.
const (
	// SidecarContainerColdUpgrade restarts the container with the new image.
	SidecarContainerColdUpgrade SidecarContainerUpgradeType = "ColdUpgrade"
	// SidecarContainerHotUpgrade starts the new image in a second container, which takes over from the first one.
	SidecarContainerHotUpgrade SidecarContainerUpgradeType = "HotUpgrade"
)

// ShareVolumePolicy is whether a sidecar has volumes of the pod's own containers.
type ShareVolumePolicy struct {
	// type is disabled, the default, or enabled.
	// +optional
	Type ShareVolumePolicyType `json:"type,omitempty"`
}

// ShareVolumePolicyType says whether volumes are shared.
type ShareVolumePolicyType string

// Values of shareVolumePolicy.type.
const (
	// ShareVolumeEnabled shares them.
	ShareVolumeEnabled ShareVolumePolicyType = "enabled"
	// ShareVolumeDisabled does not.
	ShareVolumeDisabled ShareVolumePolicyType = "disabled"
)

// TransferEnvVar are env variables that a sidecar takes over from another container.
type TransferEnvVar struct {
	// sourceContainerName is the container that has them.
	// +optional
	SourceContainerName string `json:"sourceContainerName,omitempty"`

	// sourceContainerNameFrom takes the container's name from the pod. Mutually exclusive with sourceContainerName.
	// +optional
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`

	// envName is the name of a variable.
	// +optional
	EnvName string `json:"envName,omitempty"`

	// envNames are the names of more variables.
	// +optional
	// +listType=atomic
	EnvNames []string `json:"envNames,omitempty"`
}

// SourceContainerNameSource is where in a pod the name of a container is.
type SourceContainerNameSource struct {
	// fieldRef is a label or an annotation: metadata.labels['key'] or metadata.annotations['key'].
	// +optional
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
}

// SidecarResourcesPolicy computes the resources of a sidecar when a pod is created.
type SidecarResourcesPolicy struct {
	// targetContainersMode is how the resources of several containers become one value: sum or max.
	// +required
	TargetContainersMode SidecarTargetContainersMode `json:"targetContainersMode"`

	// targetContainersNameRegex selects the containers by name, with a regular expression of Go that matches a part of it. Default
	// all: the pod's own containers and native sidecars.
	// +optional
	// +kubebuilder:default=".*"
	TargetContainersNameRegex string `json:"targetContainersNameRegex,omitempty"`

	// resourcesExpr are the expressions.
	// +required
	ResourcesExpr SidecarResourcesExpr `json:"resourcesExpr"`
}

// SidecarTargetContainersMode is how the resources of several containers become one value.
//
// +kubebuilder:validation:Enum=sum;max
type SidecarTargetContainersMode string

// Values of targetContainersMode.
const (
	// SidecarTargetSum adds them.
	SidecarTargetSum SidecarTargetContainersMode = "sum"
	// SidecarTargetMax takes the largest one.
	SidecarTargetMax SidecarTargetContainersMode = "max"
)

// SidecarResourcesExpr are the expressions for limits and requests. At least one must be set.
type SidecarResourcesExpr struct {
	// limits are the expressions for limits, of the limits of the containers.
	// +optional
	Limits *SidecarResourceExpr `json:"limits,omitempty"`

	// requests are the expressions for requests, of the requests of the containers.
	// +optional
	Requests *SidecarResourceExpr `json:"requests,omitempty"`
}

// SidecarResourceExpr are the expressions for cpu and memory. They consist of numbers, quantities, + - * / ( ), max and min, as in
// max(cpu*50%, 50m).
type SidecarResourceExpr struct {
	// cpu is an expression of the variable cpu.
	// +optional
	CPU string `json:"cpu,omitempty"`

	// memory is an expression of the variable memory.
	// +optional
	Memory string `json:"memory,omitempty"`
}

// SidecarSetUpdateStrategy is how the sidecars of pods that exist are updated.
type SidecarSetUpdateStrategy struct {
	// type is RollingUpdate, the default, or NotUpdate.
	// +optional
	Type SidecarSetUpdateStrategyType `json:"type,omitempty"`

	// podUpdatePolicy is InPlaceOnly, the default, or InPlaceIfPossible: pods that need more than other images are then deleted by
	// their CloneSet, StatefulSet or DaemonSet (of apps.kruise.io) within its own budget, as many at a time as maxUnavailable allows
	// here, and the pods that replace them get the sidecars. No effect with type NotUpdate, and not while injectionStrategy would give
	// new pods other sidecars or none.
	// +optional
	PodUpdatePolicy SidecarSetPodUpdatePolicy `json:"podUpdatePolicy,omitempty"`

	// paused stops the update; and new pods get the revision of injectionStrategy, if it has one.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// selector limits the update to pods with these labels. Mutually exclusive with partition.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// partition is how many of the matched pods keep the former revision: a number, or a percentage that is rounded up. Default 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// maxUnavailable is how many of the matched pods may be unavailable during the update: a number, or a percentage that is
	// rounded up. Default 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// priorityStrategy orders the pods for the update.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`

	// scatterStrategy spreads pods with these labels evenly over the sequence. The value "*" stands for each value that there is.
	// +optional
	// +listType=atomic
	ScatterStrategy []pods.UpdateScatterTerm `json:"scatterStrategy,omitempty"`
}

// SidecarSetUpdateStrategyType is a way to update.
type SidecarSetUpdateStrategyType string

// Values of updateStrategy.type.
const (
	// SidecarSetRollingUpdate updates pods, by podUpdatePolicy.
	SidecarSetRollingUpdate SidecarSetUpdateStrategyType = "RollingUpdate"
	// SidecarSetNotUpdate leaves pods that exist alone.
	SidecarSetNotUpdate SidecarSetUpdateStrategyType = "NotUpdate"
)

// SidecarSetPodUpdatePolicy is what becomes of pods that need more than other images.
//
// +kubebuilder:validation:Enum=InPlaceOnly;InPlaceIfPossible;""
type SidecarSetPodUpdatePolicy string

// Values of updateStrategy.podUpdatePolicy.
const (
	// SidecarSetInPlaceOnly: they wait until they are created again.
	SidecarSetInPlaceOnly SidecarSetPodUpdatePolicy = "InPlaceOnly"
	// SidecarSetInPlaceIfPossible: their workloads re-create them.
	SidecarSetInPlaceIfPossible SidecarSetPodUpdatePolicy = "InPlaceIfPossible"
)

// SidecarSetInjectionStrategy is what new pods get.
type SidecarSetInjectionStrategy struct {
	// paused keeps new pods without sidecars.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// revision is an older revision that new pods get. Unset: the current one.
	// +optional
	Revision *SidecarSetInjectRevision `json:"revision,omitempty"`
}

// SidecarSetInjectRevision names a revision.
type SidecarSetInjectRevision struct {
	// customVersion is the customVersion that the SidecarSet had with it.
	// +optional
	CustomVersion *string `json:"customVersion,omitempty"`

	// revisionName is the name of the ControllerRevision. It counts more than customVersion.
	// +optional
	RevisionName *string `json:"revisionName,omitempty"`

	// policy is Always, the default, or Partial.
	// +optional
	// +kubebuilder:default=Always
	Policy SidecarSetInjectRevisionPolicy `json:"policy,omitempty"`
}

// SidecarSetInjectRevisionPolicy says which new pods get the revision.
//
// +kubebuilder:validation:Enum=Always;Partial
type SidecarSetInjectRevisionPolicy string

// Values of revision.policy.
const (
	// InjectRevisionAlways gives it to all.
	InjectRevisionAlways SidecarSetInjectRevisionPolicy = "Always"
	// InjectRevisionPartial gives it to pods that updateStrategy.selector does not select, and with a percentage as partition to that
	// share of them; the others get the current one.
	InjectRevisionPartial SidecarSetInjectRevisionPolicy = "Partial"
)

// SidecarSetPatchPodMetadata are annotations that a pod gets.
type SidecarSetPatchPodMetadata struct {
	// annotations are the keys and values.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// patchPolicy is what happens to a value that the pod has already: Retain, the default, Overwrite or MergePatchJson.
	// +optional
	PatchPolicy SidecarSetPatchPolicy `json:"patchPolicy,omitempty"`
}

// SidecarSetPatchPolicy is what happens to a value that a pod has already.
type SidecarSetPatchPolicy string

// Values of patchPolicy.
const (
	// SidecarSetRetain keeps the pod's value.
	SidecarSetRetain SidecarSetPatchPolicy = "Retain"
	// SidecarSetOverwrite replaces it.
	SidecarSetOverwrite SidecarSetPatchPolicy = "Overwrite"
	// SidecarSetMergePatchJSON merges the value, which is JSON, into it.
	SidecarSetMergePatchJSON SidecarSetPatchPolicy = "MergePatchJson"
)

// SidecarSetStatus is the most recently observed state of a SidecarSet.
type SidecarSetStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// matchedPods is how many active pods have sidecars of it.
	// +required
	MatchedPods int32 `json:"matchedPods"`

	// updatedPods is how many of them have its current sidecars.
	// +required
	UpdatedPods int32 `json:"updatedPods"`

	// readyPods is how many of them are ready.
	// +required
	ReadyPods int32 `json:"readyPods"`

	// updatedReadyPods is how many of them are both.
	// +optional
	UpdatedReadyPods int32 `json:"updatedReadyPods,omitempty"`

	// latestRevision is the name of the ControllerRevision with the current sidecars.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`

	// collisionCount is the number of times that the name of a new ControllerRevision was already taken. It is included in the hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions are observations of the SidecarSet: Active, Injected, Upgradable, Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SidecarSetActive is the condition that the pod webhook gets the pods of all namespaces that the SidecarSet selects, but for those that are
// exempt: pods that are created then get its sidecars.
const SidecarSetActive = "Active"

// SidecarSetInjected is the condition that all active pods that the SidecarSet selects have its sidecars.
const SidecarSetInjected = "Injected"

// SidecarSetUpgradable is the condition that no pod waits for more than other images, which it gets only when it is created again. There
// is none until a pod does, and none with updateStrategy type NotUpdate.
const SidecarSetUpgradable = "Upgradable"

// SidecarSet adds containers to pods when they are created, and updates these containers.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matchedPods`
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedPods`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyPods`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type SidecarSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the SidecarSet.
	// +optional
	Spec SidecarSetSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status SidecarSetStatus `json:"status,omitempty"`
}

// SidecarSetList is a list of SidecarSet.
//
// +kubebuilder:object:root=true
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SidecarSet `json:"items"`
}
