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

// ImageSpec is what to pull of one image. Each ImagePullJob applies what it wants under its own field manager.
type ImageSpec struct {
	// pullSecrets are Secrets with credentials of the registry.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	PullSecrets []ImagePullSecret `json:"pullSecrets,omitempty"`

	// sandboxConfig is given to the container runtime with each pull.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`

	// tags are the tags and digests to pull.
	// +required
	// +listType=map
	// +listMapKey=tag
	Tags []ImageTagSpec `json:"tags"`
}

// ImagePullSecret names a Secret.
type ImagePullSecret struct {
	// namespace is its namespace.
	// +optional
	// +default=""
	Namespace string `json:"namespace,omitempty"`

	// name is its name.
	// +optional
	// +default=""
	Name string `json:"name,omitempty"`

	// mode is batch for a copy that several jobs share, as OpenKruise 1.9 and later makes it.
	// +optional
	Mode string `json:"mode,omitempty"`
}

// ImageTagSpec is a tag or digest to pull.
type ImageTagSpec struct {
	// tag is the tag or digest.
	// +required
	Tag string `json:"tag"`

	// createdAt is when the pull was asked for. Default the time of the request.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// pullPolicy limits the pull.
	// +optional
	PullPolicy *ImageTagPullPolicy `json:"pullPolicy,omitempty"`

	// ownerReferences are the ImagePullJobs that want it. It is removed when none of them exists any more.
	// +optional
	// +listType=map
	// +listMapKey=uid
	OwnerReferences []ImageTagOwner `json:"ownerReferences,omitempty"`

	// version is the number of the pull: a higher one pulls again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Version int64 `json:"version,omitempty"`

	// imagePullPolicy is whether the image is pulled if the node has it. Default Always.
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`

	// credentials are those of the Secrets that the job names, sealed for the daemon of the node. Written by the controller of
	// ImagePullJobs. The pull waits while they are sealed with another key than the node's.
	// +optional
	Credentials *ImageCredentials `json:"credentials,omitempty"`
}

// ImageCredentials are credentials of registries that only the daemon of one node can read.
type ImageCredentials struct {
	// key is the public key that they are sealed with, that of status.credentialsKey. Empty while the node has none.
	// +optional
	Key string `json:"key,omitempty"`

	// sealed is the content, by HPKE (RFC 9180).
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

	// version is the version of the pull that the job asked for last. It has none while it shares a pull that a job of another namespace
	// asked for. Written by the controller of ImagePullJobs.
	// +optional
	Version *int64 `json:"version,omitempty"`
}

// ImageTagPullPolicy limits the pull of a tag.
type ImageTagPullPolicy struct {
	// timeoutSeconds is how long one attempt may take, in seconds. Default 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// backoffLimit is how often a failed attempt is repeated. Default 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// ttlSecondsAfterFinished is how long after the end of the pull the tag is removed, in seconds, if no unfinished job wants it.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// activeDeadlineSeconds is how long all attempts together may take, in seconds. Default no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// ImagePullPhase is how far a pull is.
type ImagePullPhase string

// Phases of a pull.
const (
	// ImagePhaseWaiting: other pulls of the node come first.
	ImagePhaseWaiting ImagePullPhase = "Waiting"
	// ImagePhasePulling: it is being pulled.
	ImagePhasePulling ImagePullPhase = "Pulling"
	// ImagePhaseSucceeded: the node has the image.
	ImagePhaseSucceeded ImagePullPhase = "Succeeded"
	// ImagePhaseFailed: no further attempt is made.
	ImagePhaseFailed ImagePullPhase = "Failed"
)

// NodeImageStatus is the most recently observed state of a NodeImage.
type NodeImageStatus struct {
	// desired is the number of tags and digests to pull.
	// +required
	Desired int32 `json:"desired"`

	// succeeded is how many of them the node has.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is how many of them the node has given up.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// pulling is how many of them the node pulls.
	// +optional
	Pulling int32 `json:"pulling,omitempty"`

	// waiting is how many of them wait for others.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`

	// imageStatuses are the states of the images, by name.
	// +optional
	ImageStatuses map[string]ImageStatus `json:"imageStatuses,omitempty"`

	// firstSyncStatus is the result of the first pulls of the node.
	// +optional
	FirstSyncStatus *ImageSyncStatus `json:"firstSyncStatus,omitempty"`

	// credentialsKey is the public key of the node's daemon, in base64: an X25519 key that the daemon has made when an entry with
	// credentials came, and another one after each restart.
	// +optional
	CredentialsKey string `json:"credentialsKey,omitempty"`
}

// ImageStatus is the state of one image.
type ImageStatus struct {
	// tags are the states of its tags and digests.
	// +required
	// +listType=map
	// +listMapKey=tag
	Tags []ImageTagStatus `json:"tags"`
}

// ImageTagStatus is the state of a tag or digest.
type ImageTagStatus struct {
	// tag is the tag or digest.
	// +required
	Tag string `json:"tag"`

	// phase is Waiting, Pulling, Succeeded or Failed.
	// +required
	Phase ImagePullPhase `json:"phase"`

	// progress is how much has been pulled, from 0 to 100.
	// +optional
	Progress int32 `json:"progress,omitempty"`

	// version is the version of the spec that the state is about.
	// +optional
	Version int64 `json:"version,omitempty"`

	// startTime is when the pull began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when it ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message is why it failed.
	// +optional
	Message string `json:"message,omitempty"`

	// imageID is the image that the runtime has, as name@ID.
	// +optional
	ImageID string `json:"imageID,omitempty"`
}

// ImageSyncStatus is the result of the first pulls of a node.
type ImageSyncStatus struct {
	// syncAt is when they ended.
	// +optional
	SyncAt metav1.Time `json:"syncAt,omitzero"`

	// status is Succeeded or Failed.
	// +optional
	Status ImagePullPhase `json:"status,omitempty"`

	// message is about those that failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// NodeImage is what one node is to pull, and how far it is. It has the name of the node.
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
