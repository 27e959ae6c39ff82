package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// SidecarSetSpec is the desired state of a SidecarSet.
type SidecarSetSpec struct {
	// selector selects the pods that get the sidecars by their labels. It must not be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// namespaceSelector selects the namespaces of these pods by the labels of the namespaces. If unset, all namespaces are selected.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// initContainers are added to the init containers of a pod when it is created. An init container with restartPolicy Always is a native
	// sidecar.
	// +optional
	// +listType=atomic
	InitContainers []SidecarContainer `json:"initContainers,omitempty"`

	// containers are added to the containers of a pod when it is created.
	// +optional
	// +listType=atomic
	Containers []SidecarContainer `json:"containers,omitempty"`

	// volumes are the volumes that the sidecars may mount. A pod gets only the volumes that one of its sidecars mounts.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// updateStrategy configures how the sidecars of existing pods are updated.
	// +optional
	UpdateStrategy SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// injectionStrategy configures which revision new pods get.
	// +optional
	InjectionStrategy SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`

	// imagePullSecrets are added to the imagePullSecrets of a pod when it is created. The Secrets must exist in the pod's namespace.
	// +optional
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// revisionHistoryLimit is the number of ControllerRevisions to keep, including the current one but not those that pods use. Defaults to
	// 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// patchPodMetadata are annotations that are added to a pod together with the sidecars.
	// +optional
	// +listType=atomic
	PatchPodMetadata []SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`

	// customVersion is a name for the current revision, so that injectionStrategy can refer to it later.
	// +optional
	CustomVersion string `json:"customVersion,omitempty"`
}

// SidecarContainer is a container that is added to pods.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SidecarContainer struct {
	// +kubebuilder:validation:Schemaless
	corev1.Container `json:",inline"`

	// podInjectPolicy specifies where the container is added: before (BeforeAppContainer) or after (AfterAppContainer) the pod's own
	// containers. Defaults to BeforeAppContainer, and to AfterAppContainer for init containers.
	// +optional
	PodInjectPolicy PodInjectPolicy `json:"podInjectPolicy,omitempty"`

	// upgradeStrategy configures how the container is updated in a running pod.
	// +optional
	UpgradeStrategy SidecarContainerUpgradeStrategy `json:"upgradeStrategy,omitempty"`

	// shareVolumePolicy specifies whether the container gets the volume mounts of the pod's own containers.
	// +optional
	ShareVolumePolicy ShareVolumePolicy `json:"shareVolumePolicy,omitempty"`

	// shareVolumeDevicePolicy specifies whether the container gets the block devices of the pod's own containers.
	// +optional
	ShareVolumeDevicePolicy *ShareVolumePolicy `json:"shareVolumeDevicePolicy,omitempty"`

	// transferEnv lists environment variables that are copied from other containers of the pod.
	// +optional
	// +listType=atomic
	TransferEnv []TransferEnvVar `json:"transferEnv,omitempty"`

	// resourcesPolicy calculates the resources of the container from the resources of the pod's own containers. It is mutually exclusive with
	// resources.
	// +optional
	ResourcesPolicy *SidecarResourcesPolicy `json:"resourcesPolicy,omitempty"`
}

// PodInjectPolicy specifies where a sidecar is added to the containers of a pod.
type PodInjectPolicy string

// Values of podInjectPolicy.
const (
	// BeforeAppContainer adds the sidecar before the pod's own containers.
	BeforeAppContainer PodInjectPolicy = "BeforeAppContainer"
	// AfterAppContainer adds the sidecar after the pod's own containers.
	AfterAppContainer PodInjectPolicy = "AfterAppContainer"
)

// SidecarContainerUpgradeStrategy configures how a sidecar is updated in a running pod.
type SidecarContainerUpgradeStrategy struct {
	// upgradeType specifies how the sidecar is updated. ColdUpgrade restarts the container with the new image. HotUpgrade starts the new image
	// in a second container, which takes over from the first one. It is immutable. Defaults to ColdUpgrade.
	// +optional
	UpgradeType SidecarContainerUpgradeType `json:"upgradeType,omitempty"`

	// hotUpgradeEmptyImage is the image of the container that is not in use, with HotUpgrade. It must be an image that does nothing.
	// +optional
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// SidecarContainerUpgradeType specifies how a sidecar is updated.
type SidecarContainerUpgradeType string

// Values of upgradeType.
const (
	// SidecarContainerColdUpgrade restarts the container with the new image.
	SidecarContainerColdUpgrade SidecarContainerUpgradeType = "ColdUpgrade"
	// SidecarContainerHotUpgrade starts the new image in a second container, which takes over from the first one.
	SidecarContainerHotUpgrade SidecarContainerUpgradeType = "HotUpgrade"
)

// ShareVolumePolicy specifies whether a sidecar shares volumes with the pod's own containers.
type ShareVolumePolicy struct {
	// type specifies whether volumes are shared: enabled or disabled. Defaults to disabled.
	// +optional
	Type ShareVolumePolicyType `json:"type,omitempty"`
}

// ShareVolumePolicyType specifies whether volumes are shared.
type ShareVolumePolicyType string

// Values of shareVolumePolicy.type.
const (
	// ShareVolumeEnabled shares the volumes.
	ShareVolumeEnabled ShareVolumePolicyType = "enabled"
	// ShareVolumeDisabled doesn't share them.
	ShareVolumeDisabled ShareVolumePolicyType = "disabled"
)

// TransferEnvVar lists environment variables that a sidecar gets from another container.
type TransferEnvVar struct {
	// sourceContainerName is the name of the container to copy from.
	// +optional
	SourceContainerName string `json:"sourceContainerName,omitempty"`

	// sourceContainerNameFrom reads the name of the container from the pod. It is mutually exclusive with sourceContainerName.
	// +optional
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`

	// envName is the name of an environment variable.
	// +optional
	EnvName string `json:"envName,omitempty"`

	// envNames are the names of additional environment variables.
	// +optional
	// +listType=atomic
	EnvNames []string `json:"envNames,omitempty"`
}

// SourceContainerNameSource is the field of the pod that contains the name of a container.
type SourceContainerNameSource struct {
	// fieldRef selects a label or an annotation: metadata.labels['key'] or metadata.annotations['key'].
	// +optional
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
}

// SidecarResourcesPolicy calculates the resources of a sidecar when a pod is created.
type SidecarResourcesPolicy struct {
	// targetContainersMode specifies how the resources of several containers are aggregated: sum or max.
	// +required
	TargetContainersMode SidecarTargetContainersMode `json:"targetContainersMode"`

	// targetContainersNameRegex selects the containers by name. It is a Go regular expression that must match a part of the name. Defaults to
	// ".*": all of the pod's own containers and native sidecars.
	// +optional
	// +kubebuilder:default=".*"
	TargetContainersNameRegex string `json:"targetContainersNameRegex,omitempty"`

	// resourcesExpr contains the expressions for limits and requests.
	// +required
	ResourcesExpr SidecarResourcesExpr `json:"resourcesExpr"`
}

// SidecarTargetContainersMode specifies how the resources of several containers are aggregated.
//
// +kubebuilder:validation:Enum=sum;max
type SidecarTargetContainersMode string

// Values of targetContainersMode.
const (
	// SidecarTargetSum adds the values.
	SidecarTargetSum SidecarTargetContainersMode = "sum"
	// SidecarTargetMax uses the largest value.
	SidecarTargetMax SidecarTargetContainersMode = "max"
)

// SidecarResourcesExpr contains the expressions for limits and requests. At least one must be set.
type SidecarResourcesExpr struct {
	// limits contains the expressions for the limits, which are calculated from the limits of the containers.
	// +optional
	Limits *SidecarResourceExpr `json:"limits,omitempty"`

	// requests contains the expressions for the requests, which are calculated from the requests of the containers.
	// +optional
	Requests *SidecarResourceExpr `json:"requests,omitempty"`
}

// SidecarResourceExpr contains the expressions for cpu and memory. An expression consists of numbers, quantities, + - * / ( ), max and min,
// such as max(cpu*50%, 50m).
type SidecarResourceExpr struct {
	// cpu is an expression that uses the variable cpu.
	// +optional
	CPU string `json:"cpu,omitempty"`

	// memory is an expression that uses the variable memory.
	// +optional
	Memory string `json:"memory,omitempty"`
}

// SidecarSetUpdateStrategy configures how the sidecars of existing pods are updated.
type SidecarSetUpdateStrategy struct {
	// type is the type of the update: RollingUpdate or NotUpdate. NotUpdate leaves existing pods alone. Defaults to RollingUpdate.
	// +optional
	Type SidecarSetUpdateStrategyType `json:"type,omitempty"`

	// podUpdatePolicy specifies what happens to pods that need changes other than of images. With InPlaceOnly, they wait until they are
	// recreated for another reason. With InPlaceIfPossible, the CloneSet, StatefulSet or DaemonSet (of apps.kruise.io) that owns them deletes
	// them within its own budget, at most maxUnavailable at a time, and their replacements get the sidecars. It has no
	// effect with type NotUpdate, or while injectionStrategy would inject other sidecars or none into new pods. Defaults to InPlaceOnly.
	// +optional
	PodUpdatePolicy SidecarSetPodUpdatePolicy `json:"podUpdatePolicy,omitempty"`

	// paused stops the update. New pods then get the revision in injectionStrategy, if there is one.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// selector restricts the update to pods with matching labels. It is mutually exclusive with partition.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// partition is the number of matching pods that stay at the old revision. Value can be an absolute number (ex: 5) or a percentage (ex:
	// 10%), which is rounded up. Defaults to 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// maxUnavailable is the maximum number of matching pods that may be unavailable during the update. Value can be an absolute number (ex: 5)
	// or a percentage (ex: 10%), which is rounded up. Defaults to 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// priorityStrategy determines the order in which pods are updated.
	// +optional
	PriorityStrategy *pods.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`

	// scatterStrategy selects pods by their labels that are spread evenly over the update. The value "*" stands for each existing value.
	// +optional
	// +listType=atomic
	ScatterStrategy []pods.UpdateScatterTerm `json:"scatterStrategy,omitempty"`
}

// SidecarSetUpdateStrategyType specifies whether existing pods are updated.
type SidecarSetUpdateStrategyType string

// Values of updateStrategy.type.
const (
	// SidecarSetRollingUpdate updates existing pods according to podUpdatePolicy.
	SidecarSetRollingUpdate SidecarSetUpdateStrategyType = "RollingUpdate"
	// SidecarSetNotUpdate leaves existing pods alone.
	SidecarSetNotUpdate SidecarSetUpdateStrategyType = "NotUpdate"
)

// SidecarSetPodUpdatePolicy specifies what happens to pods that need changes other than of images.
//
// +kubebuilder:validation:Enum=InPlaceOnly;InPlaceIfPossible;""
type SidecarSetPodUpdatePolicy string

// Values of updateStrategy.podUpdatePolicy.
const (
	// SidecarSetInPlaceOnly means that they wait until they are recreated for another reason.
	SidecarSetInPlaceOnly SidecarSetPodUpdatePolicy = "InPlaceOnly"
	// SidecarSetInPlaceIfPossible means that their workloads recreate them.
	SidecarSetInPlaceIfPossible SidecarSetPodUpdatePolicy = "InPlaceIfPossible"
)

// SidecarSetInjectionStrategy configures what new pods get.
type SidecarSetInjectionStrategy struct {
	// paused stops the injection of sidecars into new pods.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// revision is an older revision that is injected into new pods. If unset, the current revision is injected.
	// +optional
	Revision *SidecarSetInjectRevision `json:"revision,omitempty"`
}

// SidecarSetInjectRevision identifies a revision.
type SidecarSetInjectRevision struct {
	// customVersion is the customVersion that the SidecarSet had at this revision.
	// +optional
	CustomVersion *string `json:"customVersion,omitempty"`

	// revisionName is the name of the ControllerRevision. It takes precedence over customVersion.
	// +optional
	RevisionName *string `json:"revisionName,omitempty"`

	// policy specifies which new pods get the revision. With Always, all of them do. With Partial, it is injected into pods that
	// updateStrategy.selector doesn't select and, if updateStrategy.partition is a percentage, into that share of the other pods; the rest get
	// the current revision. Defaults to Always.
	// +optional
	// +kubebuilder:default=Always
	Policy SidecarSetInjectRevisionPolicy `json:"policy,omitempty"`
}

// SidecarSetInjectRevisionPolicy specifies which new pods get the revision.
//
// +kubebuilder:validation:Enum=Always;Partial
type SidecarSetInjectRevisionPolicy string

// Values of revision.policy.
const (
	// InjectRevisionAlways injects the revision into all new pods.
	InjectRevisionAlways SidecarSetInjectRevisionPolicy = "Always"
	// InjectRevisionPartial injects the revision into new pods that updateStrategy.selector doesn't select and, if updateStrategy.partition is
	// a percentage, into that share of the other pods. The rest get the current revision.
	InjectRevisionPartial SidecarSetInjectRevisionPolicy = "Partial"
)

// SidecarSetPatchPodMetadata contains annotations that are added to a pod.
type SidecarSetPatchPodMetadata struct {
	// annotations are the annotations to add.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// patchPolicy specifies what happens if the pod already has a value. Retain keeps the pod's value. Overwrite replaces it. MergePatchJson
	// merges the value, which must be JSON, into the pod's value. Defaults to Retain.
	// +optional
	PatchPolicy SidecarSetPatchPolicy `json:"patchPolicy,omitempty"`
}

// SidecarSetPatchPolicy specifies what happens if a pod already has a value for an annotation.
type SidecarSetPatchPolicy string

// Values of patchPolicy.
const (
	// SidecarSetRetain keeps the pod's value.
	SidecarSetRetain SidecarSetPatchPolicy = "Retain"
	// SidecarSetOverwrite replaces the pod's value.
	SidecarSetOverwrite SidecarSetPatchPolicy = "Overwrite"
	// SidecarSetMergePatchJSON merges the value, which must be JSON, into the pod's value.
	SidecarSetMergePatchJSON SidecarSetPatchPolicy = "MergePatchJson"
)

// SidecarSetStatus is the most recently observed state of a SidecarSet.
type SidecarSetStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// matchedPods is the number of active pods that have sidecars of this SidecarSet.
	// +required
	MatchedPods int32 `json:"matchedPods"`

	// updatedPods is the number of matched pods that have the current sidecars.
	// +required
	UpdatedPods int32 `json:"updatedPods"`

	// readyPods is the number of matched pods that are ready.
	// +required
	ReadyPods int32 `json:"readyPods"`

	// updatedReadyPods is the number of matched pods that have the current sidecars and are ready.
	// +optional
	UpdatedReadyPods int32 `json:"updatedReadyPods,omitempty"`

	// latestRevision is the name of the ControllerRevision with the current sidecars.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`

	// collisionCount is the number of times that the name of a ControllerRevision was already taken.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions are the current conditions: Active, Injected, Upgradable, Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SidecarSetActive is a condition that is True while the pod webhook receives the pods of all namespaces that the SidecarSet selects,
// except for exempt ones, so that new pods get its sidecars.
const SidecarSetActive = "Active"

// SidecarSetInjected is a condition that is True while all active pods that the SidecarSet selects have its sidecars.
const SidecarSetInjected = "Injected"

// SidecarSetUpgradable is a condition that is True while no pod waits for changes other than of images, which need the pod to be recreated.
// It is absent until the first pod does, and with updateStrategy type NotUpdate.
const SidecarSetUpgradable = "Upgradable"

// SidecarSet adds containers to pods when they are created, and updates these containers later.
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
