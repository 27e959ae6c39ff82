package pods

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InPlaceUpdateState is the value of the annotation keys.InPlaceUpdateState, in JSON: the progress of the last in-place
// update of a pod. It stays on the pod after the update is done.
type InPlaceUpdateState struct {
	// revision is the name of the ControllerRevision that the pod is updated to.
	// +required
	Revision string `json:"revision"`

	// updateTimestamp is when the update began.
	// +required
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`

	// lastContainerStatuses are the changed containers as they were before the update, by name: a container that runs a
	// new image has another image ID.
	// +optional
	LastContainerStatuses map[string]InPlaceContainerStatus `json:"lastContainerStatuses,omitempty"`

	// updateEnvFromMetadata is true if the update changes env variables that containers read from the pod's labels or
	// annotations.
	// +optional
	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`

	// updateResources is true if the update changes resources of containers.
	// +optional
	UpdateResources bool `json:"updateResources,omitempty"`

	// updateImages is true if the update changes images of containers.
	// +optional
	UpdateImages bool `json:"updateImages,omitempty"`

	// nextContainerImages are the images of later batches, by container name.
	// +optional
	NextContainerImages map[string]string `json:"nextContainerImages,omitempty"`

	// nextContainerRefMetadata is the metadata of later batches that containers read as env, by container name.
	// +optional
	NextContainerRefMetadata map[string]metav1.ObjectMeta `json:"nextContainerRefMetadata,omitempty"`

	// nextContainerResources are the resources of later batches, by container name, and those of batches begun that the
	// pod may not have got yet: they are written after the rest.
	// +optional
	NextContainerResources map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`

	// preCheckBeforeNext is what must hold before the next batch begins.
	// +optional
	PreCheckBeforeNext *InPlacePreCheck `json:"preCheckBeforeNext,omitempty"`

	// containerBatchesRecord are the batches begun so far, in order.
	// +optional
	// +listType=atomic
	ContainerBatchesRecord []InPlaceContainerBatch `json:"containerBatchesRecord,omitempty"`
}

// InPlaceContainerStatus is what is recorded of a container before its update.
type InPlaceContainerStatus struct {
	// imageID is the container's image ID, as in pod status; empty where the container had none yet.
	// +optional
	ImageID string `json:"imageID,omitempty"`
}

// InPlacePreCheck is what must hold before the next batch of an in-place update begins.
type InPlacePreCheck struct {
	// containersRequiredReady are the names of containers that must be ready.
	// +optional
	// +listType=atomic
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// InPlaceContainerBatch is one batch of an in-place update.
type InPlaceContainerBatch struct {
	// timestamp is when the batch began.
	// +required
	Timestamp metav1.Time `json:"timestamp"`

	// containers are the names of the containers changed.
	// +required
	// +listType=atomic
	Containers []string `json:"containers"`
}
