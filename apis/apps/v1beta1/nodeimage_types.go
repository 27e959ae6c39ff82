package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`

	// tags are the tags and digests to pull.
	// +required
	// +listType=map
	// +listMapKey=tag
	Tags []ImageTagSpec `json:"tags"`
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

	// mode is batch for a copy that several jobs share, as created by OpenKruise 1.9 and later.
	// +optional
	Mode string `json:"mode,omitempty"`
}

// ImageTagSpec is a tag or digest to pull.
type ImageTagSpec struct {
	// tag is the tag or digest.
	// +required
	Tag string `json:"tag"`

	// createdAt is the time at which the pull was requested. Defaults to the time of the request.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// pullPolicy limits the pull.
	// +optional
	PullPolicy *ImageTagPullPolicy `json:"pullPolicy,omitempty"`

	// ownerReferences are the ImagePullJobs that request the tag. It is removed when none of them exists anymore.
	// +optional
	// +listType=map
	// +listMapKey=uid
	OwnerReferences []ImageTagOwner `json:"ownerReferences,omitempty"`

	// version is the number of the pull. Increasing it pulls the image again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Version int64 `json:"version,omitempty"`

	// imagePullPolicy specifies whether the image is pulled if the node already has it: Always or IfNotPresent. Defaults to Always.
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`

	// credentials are the credentials in the job's Secrets, encrypted for the daemon of the node. They are set by the controller of
	// ImagePullJobs. The pull waits while they are encrypted with another key than the node's.
	// +optional
	Credentials *ImageCredentials `json:"credentials,omitempty"`
}

// ImageCredentials are registry credentials that only the daemon of one node can read.
type ImageCredentials struct {
	// key is the public key that the credentials are encrypted with, from status.credentialsKey. It is empty while the node doesn't have one.
	// +optional
	Key string `json:"key,omitempty"`

	// sealed is the encrypted content, in HPKE (RFC 9180).
	// +optional
	Sealed []byte `json:"sealed,omitempty"`
}

// ImageTagOwner refers to an ImagePullJob. It has the fields of a core/v1 ObjectReference, and version.
type ImageTagOwner struct {
	// kind is the kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// namespace is the namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// uid is the UID of the object.
	// +optional
	// +default=""
	UID types.UID `json:"uid,omitempty"`

	// apiVersion is the group and version of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// resourceVersion is not used.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// fieldPath is not used.
	// +optional
	FieldPath string `json:"fieldPath,omitempty"`

	// version is the version of the pull that the job requested last. It is not set while the job shares a pull that a job in another
	// namespace requested. It is set by the controller of ImagePullJobs.
	// +optional
	Version *int64 `json:"version,omitempty"`
}

// ImageTagPullPolicy limits the pull of a tag.
type ImageTagPullPolicy struct {
	// timeoutSeconds is the timeout of one attempt, in seconds. Defaults to 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// backoffLimit is the number of retries after a failed attempt. Defaults to 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// ttlSecondsAfterFinished specifies how long the tag is kept after the end of the pull, in seconds. It is not removed while an unfinished
	// job requests it.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// activeDeadlineSeconds specifies how long all attempts together may take, in seconds. If unset, there is no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// ImagePullPhase is the progress of a pull.
type ImagePullPhase string

// Phases of a pull.
const (
	// ImagePhaseWaiting means that the pull waits for other pulls of the node.
	ImagePhaseWaiting ImagePullPhase = "Waiting"
	// ImagePhasePulling means that the image is being pulled.
	ImagePhasePulling ImagePullPhase = "Pulling"
	// ImagePhaseSucceeded means that the node has the image.
	ImagePhaseSucceeded ImagePullPhase = "Succeeded"
	// ImagePhaseFailed means that there are no more attempts.
	ImagePhaseFailed ImagePullPhase = "Failed"
)

// NodeImageStatus is the most recently observed state of a NodeImage.
type NodeImageStatus struct {
	// desired is the number of tags and digests to pull.
	// +required
	Desired int32 `json:"desired"`

	// succeeded is the number of these tags and digests that the node has.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is the number of these tags and digests that the node has given up on.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// pulling is the number of these tags and digests that the node is pulling.
	// +optional
	Pulling int32 `json:"pulling,omitempty"`

	// waiting is the number of these tags and digests that wait for other pulls.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`

	// imageStatuses are the statuses of the images by name.
	// +optional
	ImageStatuses map[string]ImageStatus `json:"imageStatuses,omitempty"`

	// firstSyncStatus is the result of the first pulls of the node.
	// +optional
	FirstSyncStatus *ImageSyncStatus `json:"firstSyncStatus,omitempty"`

	// credentialsKey is the public key of the node's daemon, in base64. It is an X25519 key that the daemon creates when it gets an entry with
	// credentials, and again after each restart.
	// +optional
	CredentialsKey string `json:"credentialsKey,omitempty"`
}

// ImageStatus is the observed state of one image.
type ImageStatus struct {
	// tags are the states of the tags and digests of the image.
	// +required
	// +listType=map
	// +listMapKey=tag
	Tags []ImageTagStatus `json:"tags"`
}

// ImageTagStatus is the observed state of a tag or digest.
type ImageTagStatus struct {
	// tag is the tag or digest.
	// +required
	Tag string `json:"tag"`

	// phase is the phase of the pull: Waiting, Pulling, Succeeded or Failed.
	// +required
	Phase ImagePullPhase `json:"phase"`

	// progress is the progress of the pull in percent, from 0 to 100.
	// +optional
	Progress int32 `json:"progress,omitempty"`

	// version is the version in the spec that the state describes.
	// +optional
	Version int64 `json:"version,omitempty"`

	// startTime is the time at which the pull started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the pull ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message explains why the pull failed.
	// +optional
	Message string `json:"message,omitempty"`

	// imageID is the ID of the image in the runtime, as name@ID.
	// +optional
	ImageID string `json:"imageID,omitempty"`
}

// ImageSyncStatus is the result of the first pulls of a node.
type ImageSyncStatus struct {
	// syncAt is the time at which the first pulls ended.
	// +optional
	SyncAt metav1.Time `json:"syncAt,omitzero"`

	// status is the result of the first pulls: Succeeded or Failed.
	// +optional
	Status ImagePullPhase `json:"status,omitempty"`

	// message describes the failed pulls.
	// +optional
	Message string `json:"message,omitempty"`
}

// NodeImage lists the images that one node should pull, and the progress of the pulls. It has the name of the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Status NodeImageStatus `json:"status,omitempty"`
}

// NodeImageList is a list of NodeImage.
//
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeImage `json:"items"`
}
