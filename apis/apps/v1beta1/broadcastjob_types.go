package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// BroadcastJobSpec is the desired state of a BroadcastJob.
type BroadcastJobSpec struct {
	// parallelism is on how many nodes pods may be active at once: a number, or a percentage of the desired nodes, rounded up. With 0
	// no pod is created. Default 2147483647, which is all nodes at once.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="parallelism can't be negative: leave it out for all nodes at once"
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`

	// template describes the pod to run on each node (a PodTemplateSpec). Its restartPolicy must be Never or OnFailure. Its
	// nodeSelector, affinity, tolerations and resource requests say which nodes fit. A change concerns pods that are created later.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// completionPolicy says when the job is complete.
	// +optional
	CompletionPolicy BroadcastJobCompletionPolicy `json:"completionPolicy,omitempty"`

	// paused stops the creation of pods. Those that are active go on. Default false. The controller sets it when a pod has failed and
	// failurePolicy.type is Pause.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// failurePolicy says what a failed pod does to the job.
	// +optional
	FailurePolicy BroadcastJobFailurePolicy `json:"failurePolicy,omitempty"`
}

// BroadcastJobCompletionPolicyType is whether a job ever completes.
//
// +kubebuilder:validation:Enum=Always;Never;""
type BroadcastJobCompletionPolicyType string

// Values of completionPolicy.type.
const (
	// BroadcastJobAlways: the job is complete when the pods of all desired nodes have ended.
	BroadcastJobAlways BroadcastJobCompletionPolicyType = "Always"
	// BroadcastJobNever: the job is never complete, and nodes that come later get a pod too.
	BroadcastJobNever BroadcastJobCompletionPolicyType = "Never"
)

// BroadcastJobCompletionPolicy says when a job is complete.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.activeDeadlineSeconds)",fieldPath=".activeDeadlineSeconds",message="a job of type Never has no deadline: remove activeDeadlineSeconds, or use type Always"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || !has(self.ttlSecondsAfterFinished)",fieldPath=".ttlSecondsAfterFinished",message="a job of type Never does not finish: remove ttlSecondsAfterFinished, or use type Always"
type BroadcastJobCompletionPolicy struct {
	// type is Always or Never. Default Always.
	// +optional
	Type BroadcastJobCompletionPolicyType `json:"type,omitempty"`

	// activeDeadlineSeconds is how long after its start the job fails if it is not complete, in seconds. It is not enforced while the
	// job is paused. Not with Never. Default no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long after it was complete or failed the job is deleted with its pods, in seconds. Not with Never.
	// Default it is kept.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// BroadcastJobFailurePolicyType is what a failed pod does to the job.
//
// +kubebuilder:validation:Enum=FailFast;Continue;Pause;""
type BroadcastJobFailurePolicyType string

// Values of failurePolicy.type.
const (
	// BroadcastJobFailFast: the job fails, and its active pods are deleted.
	BroadcastJobFailFast BroadcastJobFailurePolicyType = "FailFast"
	// BroadcastJobContinue: the job goes on.
	BroadcastJobContinue BroadcastJobFailurePolicyType = "Continue"
	// BroadcastJobPause: the job is paused, by spec.paused, until a user sets that to false.
	BroadcastJobPause BroadcastJobFailurePolicyType = "Pause"
)

// BroadcastJobFailurePolicy says when a pod has failed, and what that does to the job.
type BroadcastJobFailurePolicy struct {
	// type is FailFast, Continue or Pause. Default FailFast.
	// +optional
	Type BroadcastJobFailurePolicyType `json:"type,omitempty"`

	// restartLimit is how often the containers of a pod with restartPolicy OnFailure may restart, in sum, before the pod has failed.
	// Default 0.
	// +optional
	RestartLimit int32 `json:"restartLimit,omitempty"`
}

// BroadcastJobPhase is how far a job is.
type BroadcastJobPhase string

// Values of status.phase.
const (
	// BroadcastJobRunning: pods are created as far as parallelism allows.
	BroadcastJobRunning BroadcastJobPhase = "running"
	// BroadcastJobPaused: no pods are created.
	BroadcastJobPaused BroadcastJobPhase = "paused"
	// BroadcastJobCompleted: the pods of all desired nodes have ended. It is final.
	BroadcastJobCompleted BroadcastJobPhase = "completed"
	// BroadcastJobFailed: the job has failed. It is final.
	BroadcastJobFailed BroadcastJobPhase = "failed"
)

// BroadcastJobConditionType is a type of a condition of a BroadcastJob.
type BroadcastJobConditionType string

// Types of conditions.
const (
	// BroadcastJobConditionComplete: the job is complete.
	BroadcastJobConditionComplete BroadcastJobConditionType = "Complete"
	// BroadcastJobConditionFailed: the job has failed.
	BroadcastJobConditionFailed BroadcastJobConditionType = "Failed"
)

// BroadcastJobCondition is one aspect of the state of a job.
type BroadcastJobCondition struct {
	// type is Complete, Failed, Ready, Reconciling or Stalled.
	// +required
	Type BroadcastJobConditionType `json:"type"`

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

// BroadcastJobStatus is the most recently observed state of a BroadcastJob.
type BroadcastJobStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Complete or Failed, once the job has ended, and Ready, Reconciling and Stalled.
	// +optional
	// +listType=atomic
	Conditions []BroadcastJobCondition `json:"conditions,omitempty"`

	// startTime is the time at which the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the job was complete or failed. The job is then final: no more pods are created.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// active is how many pods are pending or running.
	// +optional
	Active int32 `json:"active"`

	// succeeded is on how many nodes the pod has succeeded.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// failed is on how many nodes the pod has failed, or has restarted more often than failurePolicy.restartLimit.
	// +optional
	Failed int32 `json:"failed"`

	// desired is how many nodes fit, or have run their pod and do not fit any more.
	// +optional
	Desired int32 `json:"desired"`

	// phase is running, paused, completed or failed.
	// +optional
	Phase BroadcastJobPhase `json:"phase,omitempty"`

	// succeededNodes are the nodes on which the pod has succeeded, sorted. They get no second pod if that one is deleted.
	// +optional
	// +listType=atomic
	SucceededNodes []string `json:"succeededNodes,omitempty"`

	// acceptedFailures is how many pods had failed when a user ended the last pause. With failurePolicy.type Pause the job is paused
	// when more fail.
	// +optional
	AcceptedFailures int32 `json:"acceptedFailures,omitempty"`
}

// BroadcastJob runs one pod to completion on each node that fits.
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
