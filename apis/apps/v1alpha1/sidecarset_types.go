package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// SidecarSetSpec is the desired state of a SidecarSet.
type SidecarSetSpec struct {
	// selector selects the pods that get the sidecars by their labels. It must not be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// namespace is the only namespace in which pods are selected. It takes precedence over namespaceSelector, and is converted to one in
	// v1beta1.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// namespaceSelector selects the namespaces of these pods by the labels of the namespaces. If unset, all namespaces are selected.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// initContainers are added to the init containers of a pod when it is created. An init container with restartPolicy Always is a native
	// sidecar.
	// +optional
	// +listType=atomic
	InitContainers []appsv1beta1.SidecarContainer `json:"initContainers,omitempty"`

	// containers are added to the containers of a pod when it is created.
	// +optional
	// +listType=atomic
	Containers []appsv1beta1.SidecarContainer `json:"containers,omitempty"`

	// volumes are the volumes that the sidecars may mount. A pod gets only the volumes that one of its sidecars mounts.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// updateStrategy configures how the sidecars of existing pods are updated.
	// +optional
	UpdateStrategy appsv1beta1.SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// injectionStrategy configures which revision new pods get.
	// +optional
	InjectionStrategy appsv1beta1.SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`

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
	PatchPodMetadata []appsv1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`
}

// SidecarSet adds containers to pods when they are created, and updates these containers later.
//
// +kubebuilder:object:root=true
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
	Status appsv1beta1.SidecarSetStatus `json:"status,omitempty"`
}

// SidecarSetList is a list of SidecarSet.
//
// +kubebuilder:object:root=true
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SidecarSet `json:"items"`
}
