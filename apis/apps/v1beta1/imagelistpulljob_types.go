package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ImageListPullJobSpec is the desired state of an ImageListPullJob.
//
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.podSelector)",message="selector and podSelector exclude each other: give selector for nodes by name or label, or podSelector for the nodes of pods"
type ImageListPullJobSpec struct {
	// images are the references of the images to pull. They must be unique.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=255
	Images []string `json:"images"`

	// The remaining fields configure where and how to pull. They are used for the ImagePullJob of each image: parallelism applies to each of
	// them.
	ImagePullJobTemplate `json:",inline"`
}

// ImageListPullJobStatus is the most recently observed state of an ImageListPullJob.
type ImageListPullJobStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// startTime is the time at which the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the ImagePullJobs of all images were complete.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// desired is the number of images.
	// +required
	Desired int32 `json:"desired"`

	// active is the number of ImagePullJobs that are pulling on at least one node.
	// +optional
	Active int32 `json:"active,omitempty"`

	// completed is the number of ImagePullJobs that have succeeded or failed on each of their nodes.
	// +optional
	Completed int32 `json:"completed"`

	// succeeded is the number of ImagePullJobs that have succeeded on all of their nodes.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// failedImageStatuses lists the ImagePullJobs that failed on some nodes.
	// +optional
	// +listType=atomic
	FailedImageStatuses []FailedImageStatus `json:"failedImageStatuses,omitempty"`

	// conditions are the current conditions: Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FailedImageStatus is an image that could not be pulled on some nodes.
type FailedImageStatus struct {
	// imagePullJob is the name of the ImagePullJob.
	// +optional
	ImagePullJob string `json:"imagePullJob,omitempty"`

	// name is the reference of the image.
	// +optional
	Name string `json:"name,omitempty"`

	// message says where to find details.
	// +optional
	Message string `json:"message,omitempty"`
}

// ImageListPullJob pulls several images on many nodes. It creates an ImagePullJob for each image.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="SUCCEEDED",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="COMPLETED",type=integer,JSONPath=`.status.completed`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ImageListPullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the ImageListPullJob.
	// +optional
	Spec ImageListPullJobSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status ImageListPullJobStatus `json:"status,omitempty"`
}

// ImageListPullJobList is a list of ImageListPullJob.
//
// +kubebuilder:object:root=true
type ImageListPullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImageListPullJob `json:"items"`
}
