package advancedcronjob

import (
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// object is a job of any of the three kinds.
type object interface {
	metav1.Object
	runtime.Object
}

// child is a job of an AdvancedCronJob, of any kind.
type child struct {
	object

	// due is when its run was due; zero if unknown.
	due time.Time
	// run is the job's state, for status.runs.
	run appsv1beta1.AdvancedCronJobRun
}

func (c *child) ended() bool { return c.run.Phase != appsv1beta1.AdvancedCronJobRunning }

// active reports whether the job may still run, even if it is being deleted.
func (c *child) active() bool { return !c.ended() }

func (c *child) terminating() bool { return c.GetDeletionTimestamp() != nil }

// startedAt returns when the job started, or if it hasn't, when it was created.
func (c *child) startedAt() time.Time {
	if c.run.StartTime != nil {
		return c.run.StartTime.Time
	}
	return c.GetCreationTimestamp().Time
}

// childOf returns a job as a child.
func childOf(o object) child {
	c := child{object: o, run: appsv1beta1.AdvancedCronJobRun{Name: o.GetName(), Phase: appsv1beta1.AdvancedCronJobRunning}}
	if at, err := time.Parse(time.RFC3339, o.GetAnnotations()[keys.ScheduledAt]); err == nil {
		c.due = at.UTC()
		c.run.ScheduleTime = timeOf(c.due)
	}
	switch job := o.(type) {
	case *batchv1.Job:
		fromJob(&c.run, job)
	case *appsv1beta1.BroadcastJob:
		fromBroadcastJob(&c.run, &job.Status)
	case *appsv1beta1.ImageListPullJob:
		fromImageListPullJob(&c.run, &job.Status)
	}
	if !c.ended() { // Counts of a running job would cause a write of the status for each pod, and its start one more.
		c.run.Desired, c.run.Succeeded, c.run.Failed = 0, 0, 0
		if !c.due.IsZero() { // Without a due time, runs are sorted by their start.
			c.run.StartTime = nil
		}
	}
	return c
}

// StripJob removes what is not read from a Job. The manager caches all Jobs of the cluster, no matter who created them.
func StripJob(job *batchv1.Job) {
	job.ManagedFields = nil
	job.Spec = batchv1.JobSpec{Completions: job.Spec.Completions}
}

func fromJob(run *appsv1beta1.AdvancedCronJobRun, job *batchv1.Job) {
	s := &job.Status
	run.StartTime, run.CompletionTime = s.StartTime, s.CompletionTime
	run.Succeeded, run.Failed = s.Succeeded, s.Failed
	if n := job.Spec.Completions; n != nil {
		run.Desired = *n
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type { //nolint:exhaustive // The others do not end it.
		case batchv1.JobComplete:
			run.Phase = appsv1beta1.AdvancedCronJobSucceeded
		case batchv1.JobFailed:
			run.Phase = appsv1beta1.AdvancedCronJobFailed
			run.CompletionTime = &c.LastTransitionTime
		}
	}
}

func fromBroadcastJob(run *appsv1beta1.AdvancedCronJobRun, s *appsv1beta1.BroadcastJobStatus) {
	run.StartTime, run.CompletionTime = s.StartTime, s.CompletionTime
	run.Desired, run.Succeeded, run.Failed = s.Desired, s.Succeeded, s.Failed
	for i := range s.Conditions {
		c := &s.Conditions[i]
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == appsv1beta1.BroadcastJobConditionComplete:
			run.Phase = appsv1beta1.AdvancedCronJobSucceeded
		case c.Type == appsv1beta1.BroadcastJobConditionFailed:
			run.Phase = appsv1beta1.AdvancedCronJobFailed
		}
	}
}

func fromImageListPullJob(run *appsv1beta1.AdvancedCronJobRun, s *appsv1beta1.ImageListPullJobStatus) {
	run.StartTime, run.CompletionTime = s.StartTime, s.CompletionTime
	run.Desired, run.Succeeded, run.Failed = s.Desired, s.Succeeded, s.Desired-s.Succeeded
	switch {
	case s.CompletionTime == nil:
	case s.Succeeded == s.Desired:
		run.Phase = appsv1beta1.AdvancedCronJobSucceeded
	default:
		run.Phase = appsv1beta1.AdvancedCronJobFailed
	}
}

// typeOf returns the kind of the jobs; empty if the template has none or several, which admission rejects.
func typeOf(t *appsv1beta1.AdvancedCronJobTemplate) appsv1beta1.AdvancedCronJobTemplateKind {
	switch {
	case t.JobTemplate != nil && t.BroadcastJobTemplate == nil && t.ImageListPullJobTemplate == nil:
		return appsv1beta1.AdvancedCronJobOfJobs
	case t.JobTemplate == nil && t.BroadcastJobTemplate != nil && t.ImageListPullJobTemplate == nil:
		return appsv1beta1.AdvancedCronJobOfBroadcastJobs
	case t.JobTemplate == nil && t.BroadcastJobTemplate == nil && t.ImageListPullJobTemplate != nil:
		return appsv1beta1.AdvancedCronJobOfImageListPullJobs
	}
	return ""
}

// gvkOf returns the version in which jobs of a kind are written.
func gvkOf(kind appsv1beta1.AdvancedCronJobTemplateKind) schema.GroupVersionKind {
	if kind == appsv1beta1.AdvancedCronJobOfJobs {
		return batchv1.SchemeGroupVersion.WithKind(string(kind))
	}
	return appsv1beta1.GroupVersion.WithKind(string(kind))
}

// ttlOf returns how many seconds the jobs stay after they end before they delete themselves; nil if they don't.
func ttlOf(t *appsv1beta1.AdvancedCronJobTemplate) *int32 {
	switch {
	case t.JobTemplate != nil:
		return t.JobTemplate.Spec.TTLSecondsAfterFinished
	case t.BroadcastJobTemplate != nil:
		return t.BroadcastJobTemplate.Spec.CompletionPolicy.TTLSecondsAfterFinished
	case t.ImageListPullJobTemplate != nil:
		return t.ImageListPullJobTemplate.Spec.CompletionPolicy.TTLSecondsAfterFinished
	}
	return nil
}

// nameOf returns the name of the job of a run. It is always the same, so that a second job can't be created by mistake.
func nameOf(cron *appsv1beta1.AdvancedCronJob, due time.Time) string {
	return fmt.Sprintf("%s-%d", cron.Name, due.Unix())
}

// newChild returns the job of a run; nil if the template has none.
func newChild(cron *appsv1beta1.AdvancedCronJob, due time.Time) object {
	t := cron.Spec.Template.DeepCopy()
	var job object
	var like *metav1.ObjectMeta
	switch typeOf(t) {
	case appsv1beta1.AdvancedCronJobOfJobs:
		job, like = &batchv1.Job{Spec: t.JobTemplate.Spec}, &t.JobTemplate.ObjectMeta
	case appsv1beta1.AdvancedCronJobOfBroadcastJobs:
		job, like = &appsv1beta1.BroadcastJob{Spec: t.BroadcastJobTemplate.Spec}, &t.BroadcastJobTemplate.ObjectMeta
	case appsv1beta1.AdvancedCronJobOfImageListPullJobs:
		job, like = &appsv1beta1.ImageListPullJob{Spec: t.ImageListPullJobTemplate.Spec}, &t.ImageListPullJobTemplate.ObjectMeta
	default:
		return nil
	}
	annotations := map[string]string{}
	maps.Copy(annotations, like.Annotations)
	annotations[keys.ScheduledAt] = due.UTC().Format(time.RFC3339)
	job.SetNamespace(cron.Namespace)
	job.SetName(nameOf(cron, due))
	job.SetLabels(like.Labels)
	job.SetAnnotations(annotations)
	job.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cron, gvk())})
	return job
}

// timeOf returns a time in the API's form, in whole seconds.
func timeOf(t time.Time) *metav1.Time { return new(metav1.NewTime(t.UTC().Truncate(time.Second))) }
