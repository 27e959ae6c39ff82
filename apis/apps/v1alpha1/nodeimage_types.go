package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// NodeImageSpec is the desired state of a NodeImage.
type NodeImageSpec struct {
	// images are the images to pull, by name without tag and digest.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Images map[string]ImageSpec `json:"images,omitempty"`
}

// ImageSpec defines what to pull of one image. Each ImagePullJob applies its part with its own field manager.
type ImageSpec struct {
	// pullSecrets are Secrets with registry credentials.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	PullSecrets []ImagePullSecret `json:"pullSecrets,omitempty"`

	// sandboxConfig is passed to the container runtime with each pull.
	// +optional
	SandboxConfig *appsv1beta1.SandboxConfig `json:"sandboxConfig,omitempty"`

	// tags are the tags and digests to pull.
	// +required
	// +listType=map
	// +listMapKey=tag
	Tags []appsv1beta1.ImageTagSpec `json:"tags"`
}

// ImagePullSecret refers to a Secret.
type ImagePullSecret struct {
	// namespace is the namespace of the Secret.
	// +optional
	// +default=""
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the Secret.
	// +optional
	// +default=""
	Name string `json:"name,omitempty"`
}

// NodeImage lists the images that one node should pull, and the progress of the pulls. It has the name of the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="PULLING",type=integer,JSONPath=`.status.pulling`
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the NodeImage.
	// +optional
	Spec NodeImageSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status appsv1beta1.NodeImageStatus `json:"status,omitempty"`
}

// NodeImageList is a list of NodeImage.
//
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeImage `json:"items"`
}
