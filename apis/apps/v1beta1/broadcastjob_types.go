package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// BroadcastJobSpec is the desired state of a BroadcastJob.
type BroadcastJobSpec struct {
	// parallelism is the maximum number of nodes with active pods at the same time. Value can be an absolute number (ex: 5) or a percentage of
	// the desired nodes (ex: 10%), which is rounded up. With 0 no pods are created. Defaults to 2147483647, which means all nodes at once.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="parallelism can't be negative: leave it out for all nodes at once"
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`

	// template describes the pod to run on each node, as a PodTemplateSpec. Its restartPolicy must be Never or OnFailure. Its nodeSelector,
	// affinity, tolerations and resource requests determine the eligible nodes. A change applies to pods that are created afterwards.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// completionPolicy configures when the job is complete.
	// +optional
	CompletionPolicy BroadcastJobCompletionPolicy `json:"completionPolicy,omitempty"`

	// paused stops the creation of pods. Active pods keep running. The controller sets it when a pod fails and failurePolicy.type is Pause.
	// Defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// failurePolicy configures what happens to the job when a pod fails.
	// +optional
	FailurePolicy BroadcastJobFailurePolicy `json:"failurePolicy,omitempty"`
}

// BroadcastJobCompletionPolicyType specifies whether a job can complete.
//
// +kubebuilder:validation:Enum=Always;Never;""
type BroadcastJobCompletionPolicyType string

// Values of completionPolicy.type.
const (
	// BroadcastJobAlways means that the job is complete when the pods of all desired nodes have ended.
	BroadcastJobAlways BroadcastJobCompletionPolicyType = "Always"
	// BroadcastJobNever means that the job never completes, and that nodes that are added later also get a pod.
	BroadcastJobNever BroadcastJobCompletionPolicyType = "Never"
)

// BroadcastJobCompletionPolicy configures when a job is complete.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.activeDeadlineSeconds)",fieldPath=".activeDeadlineSeconds",message="a job of type Never has no deadline: remove activeDeadlineSeconds, or use type Always"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.ttlSecondsAfterFinished)",fieldPath=".ttlSecondsAfterFinished",message="a job of type Never does not finish: remove ttlSecondsAfterFinished, or use type Always"
type BroadcastJobCompletionPolicy struct {
	// type specifies whether the job can complete. With Always, it is complete when the pods of all desired nodes have ended. With Never, it
	// never completes, and nodes that are added later also get a pod. Defaults to Always.
	// +optional
	Type BroadcastJobCompletionPolicyType `json:"type,omitempty"`

	// activeDeadlineSeconds specifies how long the job may run before it fails, in seconds since its start. It isn't enforced while the job is
	// paused. It can't be set with type Never. If unset, there is no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished specifies how long the job and its pods are kept after the job is complete or failed, in seconds. It can't be
	// set with type Never. If unset, they are not deleted.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// BroadcastJobFailurePolicyType specifies what happens to the job when a pod fails.
//
// +kubebuilder:validation:Enum=FailFast;Continue;Pause;""
type BroadcastJobFailurePolicyType string

// Values of failurePolicy.type.
const (
	// BroadcastJobFailFast means that the job fails and its active pods are deleted.
	BroadcastJobFailFast BroadcastJobFailurePolicyType = "FailFast"
	// BroadcastJobContinue means that the job continues.
	BroadcastJobContinue BroadcastJobFailurePolicyType = "Continue"
	// BroadcastJobPause means that the job is paused by setting spec.paused, until a user sets it to false.
	BroadcastJobPause BroadcastJobFailurePolicyType = "Pause"
)

// BroadcastJobFailurePolicy configures when a pod counts as failed, and what happens to the job then.
type BroadcastJobFailurePolicy struct {
	// type specifies what happens when a pod fails. FailFast fails the job and deletes its active pods. Continue continues the job. Pause sets
	// spec.paused. Defaults to FailFast.
	// +optional
	Type BroadcastJobFailurePolicyType `json:"type,omitempty"`

	// restartLimit is the total number of container restarts that a pod with restartPolicy OnFailure may have before it counts as failed.
	// Defaults to 0.
	// +optional
	RestartLimit int32 `json:"restartLimit,omitempty"`
}

// BroadcastJobPhase is the progress of a job.
type BroadcastJobPhase string

// Values of status.phase.
const (
	// BroadcastJobRunning means that pods are created as far as parallelism allows.
	BroadcastJobRunning BroadcastJobPhase = "running"
	// BroadcastJobPaused means that no pods are created.
	BroadcastJobPaused BroadcastJobPhase = "paused"
	// BroadcastJobCompleted means that the pods of all desired nodes have ended. This phase is final.
	BroadcastJobCompleted BroadcastJobPhase = "completed"
	// BroadcastJobFailed means that the job failed. This phase is final.
	BroadcastJobFailed BroadcastJobPhase = "failed"
)

// BroadcastJobConditionType is the type of a condition of a BroadcastJob.
type BroadcastJobConditionType string

// Condition types of a BroadcastJob.
const (
	// BroadcastJobConditionComplete means that the job is complete.
	BroadcastJobConditionComplete BroadcastJobConditionType = "Complete"
	// BroadcastJobConditionFailed means that the job failed.
	BroadcastJobConditionFailed BroadcastJobConditionType = "Failed"
)

// BroadcastJobCondition describes one aspect of the state of a job.
type BroadcastJobCondition struct {
	// type is the type of the condition: Complete, Failed, Ready, Reconciling or Stalled.
	// +required
	Type BroadcastJobConditionType `json:"type"`

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

// BroadcastJobStatus is the most recently observed state of a BroadcastJob.
type BroadcastJobStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the current conditions: Ready, Reconciling and Stalled, and Complete or Failed once the job has ended.
	// +optional
	// +listType=atomic
	Conditions []BroadcastJobCondition `json:"conditions,omitempty"`

	// startTime is the time at which the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the job was complete or failed. No pods are created after that.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// active is the number of pending and running pods.
	// +optional
	Active int32 `json:"active"`

	// succeeded is the number of nodes on which the pod succeeded.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// failed is the number of nodes on which the pod failed, or restarted more often than failurePolicy.restartLimit.
	// +optional
	Failed int32 `json:"failed"`

	// desired is the number of nodes that are eligible, or that have run their pod and are no longer eligible.
	// +optional
	Desired int32 `json:"desired"`

	// phase is the phase of the job: running, paused, completed or failed.
	// +optional
	Phase BroadcastJobPhase `json:"phase,omitempty"`

	// succeededNodes are the nodes on which the pod succeeded, sorted. They don't get a second pod if that pod is deleted.
	// +optional
	// +listType=atomic
	SucceededNodes []string `json:"succeededNodes,omitempty"`

	// acceptedFailures is the number of failed pods when a user ended the last pause. With failurePolicy.type Pause, the job is paused again
	// when more pods fail.
	// +optional
	AcceptedFailures int32 `json:"acceptedFailures,omitempty"`
}

// BroadcastJob runs one pod to completion on each eligible node.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bcj
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type BroadcastJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the BroadcastJob.
	// +optional
	Spec BroadcastJobSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status BroadcastJobStatus `json:"status,omitempty"`
}

// BroadcastJobList is a list of BroadcastJob.
//
// +kubebuilder:object:root=true
type BroadcastJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BroadcastJob `json:"items"`
}
