package pods

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InPlaceUpdateState is the value of the annotation keys.InPlaceUpdateState, as JSON. It records the progress of the last in-place update
// of a pod, and stays on the pod after the update.
type InPlaceUpdateState struct {
	// revision is the name of the ControllerRevision that the pod is updated to.
	// +required
	Revision string `json:"revision"`

	// updateTimestamp is the time at which the update began.
	// +required
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`

	// lastContainerStatuses are the statuses of the changed containers before the update, by container name. A container runs the new image
	// once its image ID differs.
	// +optional
	LastContainerStatuses map[string]InPlaceContainerStatus `json:"lastContainerStatuses,omitempty"`

	// updateEnvFromMetadata is true if the update changes environment variables that containers read from the pod's labels or annotations.
	// +optional
	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`

	// updateResources is true if the update changes the resources of containers.
	// +optional
	UpdateResources bool `json:"updateResources,omitempty"`

	// updateImages is true if the update changes the images of containers.
	// +optional
	UpdateImages bool `json:"updateImages,omitempty"`

	// nextContainerImages are the images of later batches by container name.
	// +optional
	NextContainerImages map[string]string `json:"nextContainerImages,omitempty"`

	// nextContainerRefMetadata is the metadata of later batches that containers read as environment variables, by container name.
	// +optional
	NextContainerRefMetadata map[string]metav1.ObjectMeta `json:"nextContainerRefMetadata,omitempty"`

	// nextContainerResources are the resources of later batches by container name. They include resources of batches that have begun and that
	// may not be written to the pod yet: resources are written after the other changes.
	// +optional
	NextContainerResources map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`

	// preCheckBeforeNext is the precondition for the next batch.
	// +optional
	PreCheckBeforeNext *InPlacePreCheck `json:"preCheckBeforeNext,omitempty"`

	// containerBatchesRecord are the batches that have begun so far, in order.
	// +optional
	// +listType=atomic
	ContainerBatchesRecord []InPlaceContainerBatch `json:"containerBatchesRecord,omitempty"`
}

// InPlaceContainerStatus is the recorded state of a container before its update.
type InPlaceContainerStatus struct {
	// imageID is the image ID of the container, as in the pod status. It is empty if the container didn't have one yet.
	// +optional
	ImageID string `json:"imageID,omitempty"`
}

// InPlacePreCheck is the precondition for the next batch of an in-place update.
type InPlacePreCheck struct {
	// containersRequiredReady are the names of the containers that must be ready.
	// +optional
	// +listType=atomic
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// InPlaceContainerBatch is one batch of an in-place update.
type InPlaceContainerBatch struct {
	// timestamp is the time at which the batch began.
	// +required
	Timestamp metav1.Time `json:"timestamp"`

	// containers are the names of the changed containers.
	// +required
	// +listType=atomic
	Containers []string `json:"containers"`
}
