package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EphemeralJobSpec is the desired state of an EphemeralJob.
type EphemeralJobSpec struct {
	// selector selects the pods in the namespace that get the containers. An empty selector selects all pods. Pods that already have an
	// ephemeral container with the same name are skipped.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// replicas is the maximum number of pods that get the containers: scheduled pods first, then the oldest ones. With 0 no pod gets them, and
	// the job waits. Defaults to all selected pods.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// parallelism is the maximum number of pods in which containers of the job run at the same time. With 0 no pod gets them. Defaults to 1.
	// +optional
	Parallelism *int32 `json:"parallelism,omitempty"`

	// template contains the containers. A change applies to pods that get them later.
	// +required
	Template EphemeralContainerTemplateSpec `json:"template"`

	// paused stops the job: no more pods get the containers, and the job neither ends nor reaches its deadline. Running containers keep
	// running. Defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// activeDeadlineSeconds specifies how long the job may run before it fails, in seconds since its start. Running containers keep running
	// after that, because only the end of their pod can stop them. If unset, there is no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished specifies how long the job is kept after its end, in seconds. The containers stay in their pods. Defaults to
	// 1800. A job that a hub has placed is kept by default.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// EphemeralContainerTemplateSpec contains the containers of an EphemeralJob.
type EphemeralContainerTemplateSpec struct {
	// ephemeralContainers are added to each pod, all at once. As in any ephemeral container, ports, resources, probes, lifecycle, restart
	// policies and subPath mounts are not allowed.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	EphemeralContainers []corev1.EphemeralContainer `json:"ephemeralContainers"`
}

// EphemeralJobPhase is the progress of a job.
type EphemeralJobPhase string

// Values of status.phase.
const (
	// EphemeralJobWaiting means that no pod is selected, or that none has started to run the containers.
	EphemeralJobWaiting EphemeralJobPhase = "Waiting"
	// EphemeralJobRunning means that containers are running, or have run in some of the pods.
	EphemeralJobRunning EphemeralJobPhase = "Running"
	// EphemeralJobPause means that the job is paused.
	EphemeralJobPause EphemeralJobPhase = "Pause"
	// EphemeralJobError means that the spec is invalid. No pod gets containers until the spec is changed.
	EphemeralJobError EphemeralJobPhase = "Error"
	// EphemeralJobSucceeded means that all containers have succeeded in all pods. This phase is final.
	EphemeralJobSucceeded EphemeralJobPhase = "Succeeded"
	// EphemeralJobFailed means that all containers have ended and some have failed, or that the deadline has passed. This phase is final.
	EphemeralJobFailed EphemeralJobPhase = "Failed"
)

// EphemeralJobConditionType is the type of a condition of an EphemeralJob.
type EphemeralJobConditionType string

// Condition types of an EphemeralJob.
const (
	// EphemeralJobInitialized means that the controller has seen the job.
	EphemeralJobInitialized EphemeralJobConditionType = "Initialized"
	// EphemeralJobMatchedEmpty means that there are no pods for the job.
	EphemeralJobMatchedEmpty EphemeralJobConditionType = "MatchedEmpty"
	// EphemeralJobConditionError means that the spec is invalid, or that the containers could not be added to a pod.
	EphemeralJobConditionError EphemeralJobConditionType = "JobError"
	// EphemeralJobConditionSucceeded means that the job succeeded.
	EphemeralJobConditionSucceeded EphemeralJobConditionType = "JobSucceeded"
	// EphemeralJobConditionFailed means that the job failed.
	EphemeralJobConditionFailed EphemeralJobConditionType = "JobFailed"
)

// EphemeralJobCondition describes one aspect of the state of a job.
type EphemeralJobCondition struct {
	// type is the type of the condition.
	// +required
	Type EphemeralJobConditionType `json:"type"`

	// status is the status of the condition: True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// lastProbeTime is the last time at which the condition was observed.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitempty"`

	// lastTransitionTime is the last time at which the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is a CamelCase word that identifies the cause.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is a human-readable explanation.
	// +optional
	Message string `json:"message,omitempty"`
}

// EphemeralJobStatus is the most recently observed state of an EphemeralJob.
type EphemeralJobStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the conditions of the job that are True, and Ready, Reconciling and Stalled.
	// +optional
	// +listType=atomic
	Conditions []EphemeralJobCondition `json:"conditions,omitempty"`

	// startTime is the time at which the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the job ended. No pod gets containers after that.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// phase is the phase of the job: Waiting, Running, Pause, Error, Succeeded or Failed.
	// +optional
	Phase EphemeralJobPhase `json:"phase,omitempty"`

	// match is the number of pods that have the containers or will get them. Until the job has ended, it is the sum of the other counts.
	// +optional
	Matches int32 `json:"match"`

	// succeeded is the number of pods in which all containers have ended with exit code 0.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// failed is the number of pods in which a container has failed, or which rejected the containers.
	// +optional
	Failed int32 `json:"failed"`

	// running is the number of pods in which a container is running and none has failed.
	// +optional
	Running int32 `json:"running"`

	// waiting is the number of pods that have not got the containers yet, or have not started to run them.
	// +optional
	Waiting int32 `json:"waiting"`
}

// EphemeralJob runs ephemeral containers in running pods.
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
