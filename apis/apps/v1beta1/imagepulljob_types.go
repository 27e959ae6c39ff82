package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ImagePullJobSpec is the desired state of an ImagePullJob.
//
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.podSelector)",message="selector and podSelector exclude each other: give selector for nodes by name or label, or podSelector for the nodes of pods"
type ImagePullJobSpec struct {
	// image is the reference of the image. Without a tag and digest it means latest.
	// +required
	Image string `json:"image"`

	// The rest says where and how to pull.
	ImagePullJobTemplate `json:",inline"`
}

// ImagePullJobTemplate says where and how images are pulled. It is part of an ImagePullJob and of an ImageListPullJob.
type ImagePullJobTemplate struct {
	// pullSecrets are names of Secrets in the namespace of the job, with credentials of registries.
	// +optional
	// +listType=atomic
	PullSecrets []string `json:"pullSecrets,omitempty"`

	// selector selects nodes. Without selector and podSelector all nodes are selected.
	// +optional
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`

	// podSelector selects the nodes on which matching active pods of the job's namespace run. It excludes selector.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`

	// parallelism is on how many nodes an image is pulled at once: a number, not a percentage. With 0 no further pull starts. Default 1.
	// +optional
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`

	// pullPolicy limits the pull on each node.
	// +optional
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`

	// completionPolicy says when the job is complete.
	// +required
	CompletionPolicy ImagePullJobCompletionPolicy `json:"completionPolicy"`

	// sandboxConfig is given to the container runtime with each pull.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`

	// imagePullPolicy is whether a node that has the image pulls it again. Default IfNotPresent.
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImagePullPolicy is whether a node that has an image pulls it again.
//
// +kubebuilder:validation:Enum=Always;IfNotPresent
type ImagePullPolicy string

// Values of imagePullPolicy.
const (
	// PullAlways pulls an image that the node has again.
	PullAlways ImagePullPolicy = "Always"
	// PullIfNotPresent leaves an image that the node has.
	PullIfNotPresent ImagePullPolicy = "IfNotPresent"
)

// ImagePullJobNodeSelector selects nodes, by name or by labels.
//
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="!has(self.names) || self.names.size() == 0 || !((has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0))",fieldPath=".names",message="names excludes matchLabels and matchExpressions: give the names alone, or labels that only the wanted nodes have"
type ImagePullJobNodeSelector struct {
	// names are names of nodes. It excludes matchLabels and matchExpressions.
	// +optional
	// +listType=atomic
	Names []string `json:"names,omitempty"`

	metav1.LabelSelector `json:",inline"`
}

// PullPolicy limits the pull of an image on one node.
type PullPolicy struct {
	// timeoutSeconds is how long one attempt may take, in seconds. Default 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// backoffLimit is how often a failed attempt is repeated. Default 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// ImagePullJobCompletionPolicyType is whether a job ever completes.
//
// +kubebuilder:validation:Enum=Always;Never
type ImagePullJobCompletionPolicyType string

// Values of completionPolicy.type.
const (
	// ImagePullJobAlways: the job is complete when each selected node has succeeded or failed.
	ImagePullJobAlways ImagePullJobCompletionPolicyType = "Always"
	// ImagePullJobNever: the job is never complete, and nodes that are selected later pull too.
	ImagePullJobNever ImagePullJobCompletionPolicyType = "Never"
)

// ImagePullJobCompletionPolicy says when a job is complete.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.activeDeadlineSeconds)",fieldPath=".activeDeadlineSeconds",message="a job of type Never has no deadline: remove activeDeadlineSeconds, or use type Always"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.ttlSecondsAfterFinished)",fieldPath=".ttlSecondsAfterFinished",message="a job of type Never does not finish: remove ttlSecondsAfterFinished, or use type Always"
type ImagePullJobCompletionPolicy struct {
	// type is Always or Never. Default Always.
	// +optional
	Type ImagePullJobCompletionPolicyType `json:"type,omitempty"`

	// activeDeadlineSeconds is how long after its start the job is complete in any case, in seconds: nodes that are not done then have
	// failed. Not with Never. Default no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long after its completion the job is deleted, in seconds. Not with Never. Default it is kept.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// SandboxConfig is metadata that the container runtime gets with a pull.
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

	// completionTime is when the job was complete. It is then final: nothing is pulled any more.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// desired is how many nodes are selected.
	// +required
	Desired int32 `json:"desired"`

	// active is how many of them pull.
	// +optional
	Active int32 `json:"active,omitempty"`

	// succeeded is how many of them have the image.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is how many of them have given up, or were not done at the deadline.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// message says how far the job is.
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
