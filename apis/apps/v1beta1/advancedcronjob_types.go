package v1beta1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdvancedCronJobConcurrencyPolicy specifies what happens when a run is due while another one is active.
//
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type AdvancedCronJobConcurrencyPolicy string

// Values of concurrencyPolicy.
const (
	// AdvancedCronJobAllow means that both runs are active.
	AdvancedCronJobAllow AdvancedCronJobConcurrencyPolicy = "Allow"
	// AdvancedCronJobForbid means that the new run waits until no other one is active. If several runs are waiting, only the latest is
	// started.
	AdvancedCronJobForbid AdvancedCronJobConcurrencyPolicy = "Forbid"
	// AdvancedCronJobReplace means that the active run is deleted.
	AdvancedCronJobReplace AdvancedCronJobConcurrencyPolicy = "Replace"
)

// AdvancedCronJobTemplateKind is the kind of the jobs that an AdvancedCronJob creates.
type AdvancedCronJobTemplateKind string

// Values of status.type.
const (
	// AdvancedCronJobOfJobs creates Jobs of batch/v1.
	AdvancedCronJobOfJobs AdvancedCronJobTemplateKind = "Job"
	// AdvancedCronJobOfBroadcastJobs creates BroadcastJobs.
	AdvancedCronJobOfBroadcastJobs AdvancedCronJobTemplateKind = "BroadcastJob"
	// AdvancedCronJobOfImageListPullJobs creates ImageListPullJobs.
	AdvancedCronJobOfImageListPullJobs AdvancedCronJobTemplateKind = "ImageListPullJob"
)

// AdvancedCronJobSpec is the desired state of an AdvancedCronJob.
type AdvancedCronJobSpec struct {
	// The remaining fields configure when to run.
	AdvancedCronJobSchedule `json:",inline"`

	// template is the template of the job that is created for each run. Exactly one of its fields must be set.
	// +required
	Template AdvancedCronJobTemplate `json:"template"`
}

// AdvancedCronJobSchedule configures when jobs run and how many are kept. It is the same in all versions.
type AdvancedCronJobSchedule struct {
	// schedule is the schedule in the format of a CronJob: five fields, such as "0 3 * * *", or a descriptor, such as @daily or "@every
	// 1h30m". It may start with TZ= or CRON_TZ= and the name of a time zone if timeZone is not set.
	// +required
	// +kubebuilder:validation:MinLength=0
	Schedule string `json:"schedule"`

	// timeZone is the name of the IANA time zone of the schedule, such as Europe/Berlin. Defaults to the time zone of the manager, which is
	// UTC in the chart.
	// +optional
	TimeZone *string `json:"timeZone,omitempty"`

	// startingDeadlineSeconds specifies how late a run may start, in seconds. Runs that have been due for longer are missed. If unset, there
	// is no limit.
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// concurrencyPolicy specifies what happens when a run is due while another one is active. Allow runs both. Forbid delays the new run until
	// no other one is active. Replace deletes the active one. Defaults to Allow, and to Replace with imageListPullJobTemplate, which can't be
	// used with Allow.
	// +optional
	ConcurrencyPolicy AdvancedCronJobConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// paused stops the schedule. Active jobs keep running. When it is unset, the latest run that was due in the meantime starts, unless
	// startingDeadlineSeconds prevents it. Defaults to false.
	// +optional
	Paused *bool `json:"paused,omitempty"`

	// successfulJobsHistoryLimit is the number of successful jobs to keep. Defaults to 3.
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is the number of failed jobs to keep. Defaults to 1.
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
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
	BroadcastJobTemplate *BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`

	// imageListPullJobTemplate creates an ImageListPullJob.
	// +optional
	ImageListPullJobTemplate *ImageListPullJobTemplateSpec `json:"imageListPullJobTemplate,omitempty"`
}

// BroadcastJobTemplateSpec is the metadata and spec of a BroadcastJob.
type BroadcastJobTemplateSpec struct {
	// metadata contains the labels and annotations of each BroadcastJob.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of each BroadcastJob.
	// +optional
	Spec BroadcastJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobTemplateSpec is the metadata and spec of an ImageListPullJob.
type ImageListPullJobTemplateSpec struct {
	// metadata contains the labels and annotations of each ImageListPullJob.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of each ImageListPullJob. Its completionPolicy.type must be Always, without ttlSecondsAfterFinished: the history limits
	// determine which jobs are kept.
	// +optional
	Spec ImageListPullJobSpec `json:"spec,omitempty"`
}

// AdvancedCronJobPending is a run whose job is being created.
type AdvancedCronJobPending struct {
	// scheduleTime is the time at which the run was due.
	// +required
	ScheduleTime metav1.Time `json:"scheduleTime"`

	// since is the time at which the controller decided to start the run.
	// +required
	Since metav1.Time `json:"since"`
}

// AdvancedCronJobRunPhase is the progress of a run.
type AdvancedCronJobRunPhase string

// Phases of a run.
const (
	// AdvancedCronJobRunning means that the job has not ended.
	AdvancedCronJobRunning AdvancedCronJobRunPhase = "Running"
	// AdvancedCronJobSucceeded means that the job is complete.
	AdvancedCronJobSucceeded AdvancedCronJobRunPhase = "Succeeded"
	// AdvancedCronJobFailed means that the job failed.
	AdvancedCronJobFailed AdvancedCronJobRunPhase = "Failed"
	// AdvancedCronJobRemoved means that the job was deleted before the controller observed its end.
	AdvancedCronJobRemoved AdvancedCronJobRunPhase = "Removed"
)

// AdvancedCronJobRun describes one run. It is kept when the job is deleted.
type AdvancedCronJobRun struct {
	// name is the name of the job.
	// +required
	Name string `json:"name"`

	// scheduleTime is the time at which the run was due.
	// +optional
	ScheduleTime *metav1.Time `json:"scheduleTime,omitempty"`

	// phase is the phase of the run: Running, Succeeded, Failed or Removed.
	// +optional
	Phase AdvancedCronJobRunPhase `json:"phase,omitempty"`

	// startTime is the time at which the job started, taken from its status once it has ended.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is the time at which the job ended, taken from its status.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// desired is the desired number of nodes of a BroadcastJob, images of an ImageListPullJob or completions of a Job, when it ended.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// succeeded is the number of these that succeeded, when the job ended.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is the number of nodes, images or pods that failed, when the job ended.
	// +optional
	Failed int32 `json:"failed,omitempty"`
}

// AdvancedCronJobStatus is the most recently observed state of an AdvancedCronJob.
type AdvancedCronJobStatus struct {
	// type is the kind of the jobs: Job, BroadcastJob or ImageListPullJob.
	// +optional
	Type AdvancedCronJobTemplateKind `json:"type,omitempty"`

	// active lists the jobs that have not ended.
	// +optional
	// +listType=atomic
	Active []corev1.ObjectReference `json:"active,omitempty"`

	// lastScheduleTime is the time at which the latest run was due that the controller decided to start. It is kept when the job is deleted.
	// If the job could not be created in time, lastMissedTime has the same value.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// pending is a run that was decided before its job is created. Most runs are not recorded here.
	// +optional
	Pending *AdvancedCronJobPending `json:"pending,omitempty"`

	// waitingScheduleTime is the time at which a run was due that waits for another one to end, because concurrencyPolicy is Forbid.
	// +optional
	WaitingScheduleTime *metav1.Time `json:"waitingScheduleTime,omitempty"`

	// lastMissedTime is the time at which the latest run was due that was not started and will not be: because startingDeadlineSeconds had
	// passed, because a later run was due before it could start, or because an earlier controller left no record of it.
	// +optional
	LastMissedTime *metav1.Time `json:"lastMissedTime,omitempty"`

	// runs are the latest ten runs, newest first.
	// +optional
	// +listType=atomic
	Runs []AdvancedCronJobRun `json:"runs,omitempty"`

	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the current conditions: Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AdvancedCronJob runs a Job, BroadcastJob or ImageListPullJob on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Status AdvancedCronJobStatus `json:"status,omitempty"`
}

// AdvancedCronJobList is a list of AdvancedCronJob.
//
// +kubebuilder:object:root=true
type AdvancedCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdvancedCronJob `json:"items"`
}
