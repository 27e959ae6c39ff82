package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EphemeralJobSpec is the desired state of an EphemeralJob.
type EphemeralJobSpec struct {
	// selector selects the pods of the namespace that get the containers. An empty one selects all of them. A pod that has an ephemeral
	// container of the same name already is left out.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// replicas is how many pods get the containers at most: those that have a node first, and then the oldest. With 0 none does, and the
	// job waits. Default all that are selected.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// parallelism is in how many pods containers of the job may run at once. With 0 no pod gets them. Default 1.
	// +optional
	Parallelism *int32 `json:"parallelism,omitempty"`

	// template has the containers. A change concerns pods that get them later.
	// +required
	Template EphemeralContainerTemplateSpec `json:"template"`

	// paused stops the job: no more pods get the containers, and neither its end nor its deadline comes. Containers that run go on. Default
	// false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// activeDeadlineSeconds is how long after its start the job fails if it has not ended, in seconds. Containers that run then go on:
	// nothing can stop them but the end of their pod. Default no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long after its end the job is deleted, in seconds. The containers stay in their pods. Default 1800, but
	// a job that a hub has placed is kept.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// EphemeralContainerTemplateSpec has the containers of an EphemeralJob.
type EphemeralContainerTemplateSpec struct {
	// ephemeralContainers are added to each pod, all at once. Ports, resources, probes, lifecycle, restart policies and mounts of a subPath
	// are not allowed, as in any ephemeral container.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	EphemeralContainers []corev1.EphemeralContainer `json:"ephemeralContainers"`
}

// EphemeralJobPhase is how far a job is.
type EphemeralJobPhase string

// Values of status.phase.
const (
	// EphemeralJobWaiting: no pod is selected, or none has begun to run the containers.
	EphemeralJobWaiting EphemeralJobPhase = "Waiting"
	// EphemeralJobRunning: containers run, or have run in some of the pods.
	EphemeralJobRunning EphemeralJobPhase = "Running"
	// EphemeralJobPause: the job is paused.
	EphemeralJobPause EphemeralJobPhase = "Pause"
	// EphemeralJobError: the spec is invalid. No pod gets containers until it is changed.
	EphemeralJobError EphemeralJobPhase = "Error"
	// EphemeralJobSucceeded: all containers have succeeded in all pods. It is final.
	EphemeralJobSucceeded EphemeralJobPhase = "Succeeded"
	// EphemeralJobFailed: all containers have ended, and some have failed, or the deadline has passed. It is final.
	EphemeralJobFailed EphemeralJobPhase = "Failed"
)

// EphemeralJobConditionType is a type of a condition of an EphemeralJob.
type EphemeralJobConditionType string

// Types of conditions.
const (
	// EphemeralJobInitialized: the controller has seen the job.
	EphemeralJobInitialized EphemeralJobConditionType = "Initialized"
	// EphemeralJobMatchedEmpty: there is no pod for the job.
	EphemeralJobMatchedEmpty EphemeralJobConditionType = "MatchedEmpty"
	// EphemeralJobConditionError: the spec is invalid, or a pod could not be given the containers.
	EphemeralJobConditionError EphemeralJobConditionType = "JobError"
	// EphemeralJobConditionSucceeded: the job has succeeded.
	EphemeralJobConditionSucceeded EphemeralJobConditionType = "JobSucceeded"
	// EphemeralJobConditionFailed: the job has failed.
	EphemeralJobConditionFailed EphemeralJobConditionType = "JobFailed"
)

// EphemeralJobCondition is one aspect of the state of a job.
type EphemeralJobCondition struct {
	// type is the type of the condition.
	// +required
	Type EphemeralJobConditionType `json:"type"`

	// status is the status of the condition: True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// lastProbeTime is when the condition was last observed.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitempty"`

	// lastTransitionTime is the last time at which the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is a word for why.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says why, for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// EphemeralJobStatus is the most recently observed state of an EphemeralJob.
type EphemeralJobStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the observations of the job that are True, and Ready, Reconciling and Stalled.
	// +optional
	// +listType=atomic
	Conditions []EphemeralJobCondition `json:"conditions,omitempty"`

	// startTime is the time at which the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the job has ended. No pod gets containers after that.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// phase is Waiting, Running, Pause, Error, Succeeded or Failed.
	// +optional
	Phase EphemeralJobPhase `json:"phase,omitempty"`

	// match is how many pods have the containers or are to get them. It is the sum of the other counts until the job has ended.
	// +optional
	Matches int32 `json:"match"`

	// succeeded is in how many pods all containers have ended with exit code 0.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// failed is in how many pods a container has failed, or the containers were refused.
	// +optional
	Failed int32 `json:"failed"`

	// running is in how many pods a container runs, and none has failed.
	// +optional
	Running int32 `json:"running"`

	// waiting is how many pods are still to get the containers, or have not begun to run them.
	// +optional
	Waiting int32 `json:"waiting"`
}

// EphemeralJob runs ephemeral containers in pods that run already.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ejob
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="MATCH",type=integer,JSONPath=`.status.match`
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="RUNNING",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="WAITING",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type EphemeralJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the EphemeralJob.
	// +optional
	Spec EphemeralJobSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status EphemeralJobStatus `json:"status,omitempty"`
}

// EphemeralJobList is a list of EphemeralJob.
//
// +kubebuilder:object:root=true
type EphemeralJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralJob `json:"items"`
}
