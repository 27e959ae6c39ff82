package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ImagePullJobSpec is the desired state of an ImagePullJob.
//
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.podSelector)",message="selector and podSelector exclude each other: give selector for nodes by name or label, or podSelector for the nodes of pods"
type ImagePullJobSpec struct {
	// image is the reference of the image to pull. The tag defaults to latest if there is neither a tag nor a digest.
	// +required
	Image string `json:"image"`

	// The remaining fields configure where and how to pull.
	ImagePullJobTemplate `json:",inline"`
}

// ImagePullJobTemplate configures where and how images are pulled. It is part of ImagePullJobs and ImageListPullJobs.
type ImagePullJobTemplate struct {
	// pullSecrets are the names of Secrets in the namespace of the job that contain registry credentials.
	// +optional
	// +listType=atomic
	PullSecrets []string `json:"pullSecrets,omitempty"`

	// selector selects the nodes. If neither selector nor podSelector is set, all nodes are selected.
	// +optional
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`

	// podSelector selects the nodes that run matching active pods of the job's namespace. It is mutually exclusive with selector.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`

	// parallelism is the maximum number of nodes that pull an image at the same time. It must be a number, not a percentage. With 0, no more
	// pulls are started. Defaults to 1.
	// +optional
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`

	// pullPolicy limits the pull on each node.
	// +optional
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`

	// completionPolicy configures when the job is complete.
	// +required
	CompletionPolicy ImagePullJobCompletionPolicy `json:"completionPolicy"`

	// sandboxConfig is passed to the container runtime with each pull.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`

	// imagePullPolicy specifies whether a node that already has the image pulls it again: Always or IfNotPresent. Defaults to IfNotPresent.
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImagePullPolicy specifies whether a node that already has an image pulls it again.
//
// +kubebuilder:validation:Enum=Always;IfNotPresent
type ImagePullPolicy string

// Values of imagePullPolicy.
const (
	// PullAlways pulls the image even if the node already has it.
	PullAlways ImagePullPolicy = "Always"
	// PullIfNotPresent doesn't pull an image that the node already has.
	PullIfNotPresent ImagePullPolicy = "IfNotPresent"
)

// ImagePullJobNodeSelector selects nodes by name or by labels.
//
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="!has(self.names) || self.names.size() == 0 || !((has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0))",fieldPath=".names",message="names excludes matchLabels and matchExpressions: give the names alone, or labels that only the wanted nodes have"
type ImagePullJobNodeSelector struct {
	// names are the names of nodes. It is mutually exclusive with matchLabels and matchExpressions.
	// +optional
	// +listType=atomic
	Names []string `json:"names,omitempty"`

	metav1.LabelSelector `json:",inline"`
}

// PullPolicy limits the pull of an image on one node.
type PullPolicy struct {
	// timeoutSeconds is the timeout of one attempt, in seconds. Defaults to 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// backoffLimit is the number of retries after a failed attempt. Defaults to 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// ImagePullJobCompletionPolicyType specifies whether a job can complete.
//
// +kubebuilder:validation:Enum=Always;Never
type ImagePullJobCompletionPolicyType string

// Values of completionPolicy.type.
const (
	// ImagePullJobAlways means that the job is complete when each selected node has succeeded or failed.
	ImagePullJobAlways ImagePullJobCompletionPolicyType = "Always"
	// ImagePullJobNever means that the job never completes, and that nodes that are selected later also pull the image.
	ImagePullJobNever ImagePullJobCompletionPolicyType = "Never"
)

// ImagePullJobCompletionPolicy configures when a job is complete.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.activeDeadlineSeconds)",fieldPath=".activeDeadlineSeconds",message="a job of type Never has no deadline: remove activeDeadlineSeconds, or use type Always"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.ttlSecondsAfterFinished)",fieldPath=".ttlSecondsAfterFinished",message="a job of type Never does not finish: remove ttlSecondsAfterFinished, or use type Always"
type ImagePullJobCompletionPolicy struct {
	// type specifies whether the job can complete. With Always, it is complete when each selected node has succeeded or failed. With Never, it
	// never completes, and nodes that are selected later also pull the image. Defaults to Always.
	// +optional
	Type ImagePullJobCompletionPolicyType `json:"type,omitempty"`

	// activeDeadlineSeconds specifies how long the job may run, in seconds since its start. After that it is complete in any case, and nodes
	// that are not done have failed. It can't be set with type Never. If unset, there is no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished specifies how long the job is kept after its completion, in seconds. It can't be set with type Never. If unset,
	// the job is not deleted.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// SandboxConfig contains metadata that is passed to the container runtime with a pull.
type SandboxConfig struct {
	// labels are labels of the sandbox.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are annotations of the sandbox.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ImagePullJobStatus is the most recently observed state of an ImagePullJob.
type ImagePullJobStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// startTime is the time at which the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the job was complete. Nothing is pulled after that.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// desired is the number of selected nodes.
	// +required
	Desired int32 `json:"desired"`

	// active is the number of selected nodes that are pulling the image.
	// +optional
	Active int32 `json:"active,omitempty"`

	// succeeded is the number of selected nodes that have the image.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is the number of selected nodes that gave up or were not done at the deadline.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// message describes the progress of the job.
	// +optional
	Message string `json:"message,omitempty"`

	// failedNodes are the nodes that failed, sorted.
	// +optional
	// +listType=atomic
	FailedNodes []string `json:"failedNodes,omitempty"`

	// conditions are the current conditions: Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ImagePullJob pulls an image on many nodes before pods need it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="ACTIVE",type=integer,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ImagePullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the ImagePullJob.
	// +optional
	Spec ImagePullJobSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status ImagePullJobStatus `json:"status,omitempty"`
}

// ImagePullJobList is a list of ImagePullJob.
//
// +kubebuilder:object:root=true
type ImagePullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImagePullJob `json:"items"`
}
