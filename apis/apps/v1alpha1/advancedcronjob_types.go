package v1alpha1

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// AdvancedCronJobSpec is the desired state of an AdvancedCronJob.
type AdvancedCronJobSpec struct {
	// The remaining fields configure when to run.
	appsv1beta1.AdvancedCronJobSchedule `json:",inline"`

	// template is the template of the job that is created for each run. Exactly one of its fields must be set. None is set if the object has
	// imageListPullJobTemplate in v1beta1.
	// +required
	Template AdvancedCronJobTemplate `json:"template"`
}

// AdvancedCronJobTemplate is the template of the job that is created for each run. Exactly one of its fields must be set.
type AdvancedCronJobTemplate struct {
	// jobTemplate creates a Job of batch/v1. It is a JobTemplateSpec.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`

	// broadcastJobTemplate creates a BroadcastJob.
	// +optional
	BroadcastJobTemplate *appsv1beta1.BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
}

// AdvancedCronJob runs a Job, BroadcastJob or ImageListPullJob on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=acj
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`
// +kubebuilder:printcolumn:name="LastScheduleTime",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type AdvancedCronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the AdvancedCronJob.
	// +optional
	Spec AdvancedCronJobSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status appsv1beta1.AdvancedCronJobStatus `json:"status,omitempty"`
}

// AdvancedCronJobList is a list of AdvancedCronJob.
//
// +kubebuilder:object:root=true
type AdvancedCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdvancedCronJob `json:"items"`
}
