package v1beta1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdvancedCronJobConcurrencyPolicy is what happens when a run is due while another one is active.
//
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type AdvancedCronJobConcurrencyPolicy string

// Values of concurrencyPolicy.
const (
	// AdvancedCronJobAllow: both are active.
	AdvancedCronJobAllow AdvancedCronJobConcurrencyPolicy = "Allow"
	// AdvancedCronJobForbid: the run that is due waits until no other one is active. Of those that wait, only the latest is started.
	AdvancedCronJobForbid AdvancedCronJobConcurrencyPolicy = "Forbid"
	// AdvancedCronJobReplace: the active one is deleted.
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
	// The rest says when to run.
	AdvancedCronJobSchedule `json:",inline"`

	// template is the job of each run. Exactly one of its fields is set.
	// +required
	Template AdvancedCronJobTemplate `json:"template"`
}

// AdvancedCronJobSchedule says when to run and what becomes of runs. It is the same in all versions.
type AdvancedCronJobSchedule struct {
	// schedule says when runs are due, as that of a CronJob: five fields, such as "0 3 * * *", or a descriptor, such as @daily or
	// "@every 1h30m". It may begin with TZ= or CRON_TZ= and the name of a time zone, if timeZone is not set.
	// +required
	// +kubebuilder:validation:MinLength=0
	Schedule string `json:"schedule"`

	// timeZone is the name of the IANA time zone of the schedule, such as Europe/Berlin. Default that of the manager, which is UTC in the
	// chart.
	// +optional
	TimeZone *string `json:"timeZone,omitempty"`

	// startingDeadlineSeconds is how late a run may start, in seconds: one that is due for longer is missed. Default no limit.
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// concurrencyPolicy is what happens when a run is due while another one is active: Allow, Forbid or Replace. Default Allow, and
	// Replace with imageListPullJobTemplate, which excludes Allow.
	// +optional
	ConcurrencyPolicy AdvancedCronJobConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// paused stops the schedule. Active jobs go on. When it ends, the latest run that was due meanwhile starts, unless
	// startingDeadlineSeconds excludes it. Default false.
	// +optional
	Paused *bool `json:"paused,omitempty"`

	// successfulJobsHistoryLimit is how many jobs that have succeeded are kept. Default 3.
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is how many jobs that have failed are kept. Default 1.
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
}

// AdvancedCronJobTemplate is the job of each run. Exactly one field is set.
type AdvancedCronJobTemplate struct {
	// jobTemplate is a Job of batch/v1 (a JobTemplateSpec).
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`

	// broadcastJobTemplate is a BroadcastJob.
	// +optional
	BroadcastJobTemplate *BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`

	// imageListPullJobTemplate is an ImageListPullJob.
	// +optional
	ImageListPullJobTemplate *ImageListPullJobTemplateSpec `json:"imageListPullJobTemplate,omitempty"`
}

// BroadcastJobTemplateSpec is the metadata and spec of a BroadcastJob.
type BroadcastJobTemplateSpec struct {
	// metadata holds the labels and annotations of each BroadcastJob.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of each BroadcastJob.
	// +optional
	Spec BroadcastJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobTemplateSpec is the metadata and spec of an ImageListPullJob.
type ImageListPullJobTemplateSpec struct {
	// metadata holds the labels and annotations of each ImageListPullJob.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of each ImageListPullJob. Its completionPolicy.type must be Always, without ttlSecondsAfterFinished: the history
	// limits say which jobs are kept.
	// +optional
	Spec ImageListPullJobSpec `json:"spec,omitempty"`
}

// AdvancedCronJobPending is a run whose job is being created.
type AdvancedCronJobPending struct {
	// scheduleTime is when the run was due.
	// +required
	ScheduleTime metav1.Time `json:"scheduleTime"`

	// since is when the controller decided to start it.
	// +required
	Since metav1.Time `json:"since"`
}

// AdvancedCronJobRunPhase is how far a run is.
type AdvancedCronJobRunPhase string

// Values of the phase of a run.
const (
	// AdvancedCronJobRunning: the job has not ended.
	AdvancedCronJobRunning AdvancedCronJobRunPhase = "Running"
	// AdvancedCronJobSucceeded: the job is complete.
	AdvancedCronJobSucceeded AdvancedCronJobRunPhase = "Succeeded"
	// AdvancedCronJobFailed: the job has failed.
	AdvancedCronJobFailed AdvancedCronJobRunPhase = "Failed"
	// AdvancedCronJobRemoved: the job was deleted before the controller saw its end.
	AdvancedCronJobRemoved AdvancedCronJobRunPhase = "Removed"
)

// AdvancedCronJobRun is one run. It is kept when the job is deleted.
type AdvancedCronJobRun struct {
	// name is the name of the job.
	// +required
	Name string `json:"name"`

	// scheduleTime is when the run was due.
	// +optional
	ScheduleTime *metav1.Time `json:"scheduleTime,omitempty"`

	// phase is Running, Succeeded, Failed or Removed.
	// +optional
	Phase AdvancedCronJobRunPhase `json:"phase,omitempty"`

	// startTime is when the job started, as its status says once it has ended.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the job ended, as its status says.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// desired is how many nodes of a BroadcastJob, images of an ImageListPullJob or completions of a Job there were to be, at its end.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// succeeded is how many of them have succeeded, at its end.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is how many nodes, images or pods have failed, at its end.
	// +optional
	Failed int32 `json:"failed,omitempty"`
}

// AdvancedCronJobStatus is the most recently observed state of an AdvancedCronJob.
type AdvancedCronJobStatus struct {
	// type is the kind of the jobs: Job, BroadcastJob or ImageListPullJob.
	// +optional
	Type AdvancedCronJobTemplateKind `json:"type,omitempty"`

	// active are the jobs that have not ended.
	// +optional
	// +listType=atomic
	Active []corev1.ObjectReference `json:"active,omitempty"`

	// lastScheduleTime is when the latest run was due that the controller has decided to start. It stays when the job is deleted. If the
	// job could not be created in time, lastMissedTime is as late.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// pending is the run that is decided before its job is created; most are not.
	// +optional
	Pending *AdvancedCronJobPending `json:"pending,omitempty"`

	// waitingScheduleTime is when the run was due that waits for the end of another one, because concurrencyPolicy is Forbid.
	// +optional
	WaitingScheduleTime *metav1.Time `json:"waitingScheduleTime,omitempty"`

	// lastMissedTime is when the latest run was due that was not started and will not be: because startingDeadlineSeconds had passed,
	// because a later one was due before it could start, or because a former controller has left no record of it.
	// +optional
	LastMissedTime *metav1.Time `json:"lastMissedTime,omitempty"`

	// runs are the latest ten runs, the newest first.
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
