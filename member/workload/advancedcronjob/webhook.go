package advancedcronjob

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/workload/advancedcronjob/cronschedule"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

const (
	// suffix is how many characters the due time adds to the names of jobs: a dash and ten digits.
	suffix = 11
	// mostActiveSeconds is the longest activeDeadlineSeconds of an imageListPullJobTemplate.
	mostActiveSeconds = 24 * 60 * 60
)

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Templates validate the specs of jobs at a path, the same way as the webhooks of their kinds.
type Templates struct {
	BroadcastJob     func(*appsv1beta1.BroadcastJobSpec, *field.Path) field.ErrorList
	ImageListPullJob func(*appsv1beta1.ImageListPullJobSpec, *field.Path) field.ErrorList
	// PullsOff means that the feature gate is off, so nothing is pulled.
	PullsOff bool
}

// Webhook sets defaults, and validates what neither schema nor CEL can. Objects of both versions arrive as v1beta1. It is safe for concurrent
// use.
type Webhook struct {
	// Client creates pod templates and Jobs with dry runs.
	Client client.Client
	// Local is the time zone for schedules that don't name one.
	Local *time.Location
	// Templates validate the templates of our own kinds.
	Templates Templates

	pods workloadspec.PodTemplates
}

var (
	_ admission.Defaulter[*appsv1beta1.AdvancedCronJob] = &Webhook{}
	_ admission.Validator[*appsv1beta1.AdvancedCronJob] = &Webhook{}
)

// Default sets defaults, also in pod templates. A template that is equivalent to the stored one keeps its stored form. A missing restartPolicy
// is left out, because the apiserver's default for it is refused.
func (w *Webhook) Default(ctx context.Context, cron *appsv1beta1.AdvancedCronJob) error {
	setDefaults(cron)
	template, path := podTemplateOf(&cron.Spec.Template)
	if template == nil || template.Spec.RestartPolicy == "" {
		return nil
	}
	old, err := admit.Old[appsv1beta1.AdvancedCronJob](ctx)
	if err != nil {
		return err
	}
	stored := workloadspec.Templates{}
	if old != nil {
		stored.Pod, _ = podTemplateOf(&old.Spec.Template)
	}
	done, faults, err := w.pods.Complete(ctx, w.Client, admit.Namespace(ctx, cron), stored, workloadspec.Templates{Pod: template},
		workloadspec.AllDefaults, path)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return refuse(cron, faults)
	}
	*template = *done.Pod
	return nil
}

func setDefaults(cron *appsv1beta1.AdvancedCronJob) {
	s := &cron.Spec
	s.ConcurrencyPolicy = policyOf(cron)
	if s.Paused == nil {
		s.Paused = new(false)
	}
	if s.SuccessfulJobsHistoryLimit == nil {
		s.SuccessfulJobsHistoryLimit = new(int32(defaultSuccessful))
	}
	if s.FailedJobsHistoryLimit == nil {
		s.FailedJobsHistoryLimit = new(int32(defaultFailed))
	}
	// As in OpenKruise: the rest is left to the ImageListPullJobs.
	if t := s.Template.ImageListPullJobTemplate; t != nil && t.Spec.CompletionPolicy.Type == "" {
		imagepull.DefaultJob(&t.Spec.ImagePullJobTemplate)
	}
}

// podTemplateOf returns the pod template of the jobs and its path; nil if they have none.
func podTemplateOf(t *appsv1beta1.AdvancedCronJobTemplate) (*corev1.PodTemplateSpec, *field.Path) {
	at := field.NewPath("spec", "template")
	switch {
	case t.JobTemplate != nil:
		return &t.JobTemplate.Spec.Template, at.Child("jobTemplate", "spec", "template")
	case t.BroadcastJobTemplate != nil:
		return &t.BroadcastJobTemplate.Spec.Template, at.Child("broadcastJobTemplate", "spec", "template")
	}
	return nil, nil
}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, cron *appsv1beta1.AdvancedCronJob) (admission.Warnings, error) {
	faults := append(validateName(cron), w.validate(cron)...)
	if w.Templates.PullsOff && cron.Spec.Template.ImageListPullJobTemplate != nil {
		faults = append(faults, field.Forbidden(field.NewPath("spec", "template", "imageListPullJobTemplate"), imagepull.Off))
	}
	if len(faults) == 0 { // Otherwise the apiserver would complain about the default of a missing restartPolicy.
		var err error
		if faults, err = w.dryRun(ctx, cron); err != nil {
			return nil, err
		}
	}
	return w.warnings(cron), refuse(cron, faults)
}

// ValidateUpdate implements admission.Validator. Faults that the old spec already had are only warnings.
func (w *Webhook) ValidateUpdate(_ context.Context, old, cron *appsv1beta1.AdvancedCronJob) (admission.Warnings, error) {
	news := admit.NewWarnings(w.warnings(cron), w.warnings(old))
	if apiequality.Semantic.DeepEqual(old.Spec, cron.Spec) {
		return news, nil // Metadata may have changed.
	}
	faults, warned := admit.Ratchet(w.validate(cron), w.validate(old))
	if len(faults) == 0 {
		faults = validateImmutable(&old.Spec.Template, &cron.Spec.Template)
	}
	return append(warned, news...), refuse(cron, faults)
}

// ValidateDelete implements admission.Validator; nothing is refused.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.AdvancedCronJob) (admission.Warnings, error) {
	return nil, nil
}

// validateImmutable returns faults for an immutable template that has changed. The template of ImageListPullJobs may change.
func validateImmutable(old, template *appsv1beta1.AdvancedCronJobTemplate) field.ErrorList {
	before, after := old.DeepCopy(), template.DeepCopy()
	if before.ImageListPullJobTemplate != nil && after.ImageListPullJobTemplate != nil {
		before.ImageListPullJobTemplate, after.ImageListPullJobTemplate = nil, nil
	}
	if apiequality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "template"),
		"only an imageListPullJobTemplate can be changed: create another AdvancedCronJob, and delete this one or set spec.paused")}
}

var nameFormat = regexp.MustCompile(`^[a-zA-Z0-9-]+$`)

// validateName validates the name, from which the names of the jobs are derived.
func validateName(cron *appsv1beta1.AdvancedCronJob) field.ErrorList {
	name, path, most := cron.Name, field.NewPath("metadata", "name"), validation.DNS1123LabelMaxLength
	if name == "" {
		name = cron.GenerateName + "12345" // The apiserver appends that many random characters.
	}
	if !nameFormat.MatchString(name) {
		return field.ErrorList{field.Invalid(path, name, "must consist of letters, digits and dashes")}
	}
	if cron.Spec.Template.ImageListPullJobTemplate == nil { // Pods carry the names of their jobs as label values.
		most -= suffix
	}
	if len(name) > most {
		return field.ErrorList{field.Invalid(path, name, fmt.Sprintf(
			"it is part of the names of jobs, which are label values of pods: use at most %d characters", most))}
	}
	return nil
}

// validate validates an object on its own, without asking the apiserver.
func (w *Webhook) validate(cron *appsv1beta1.AdvancedCronJob) field.ErrorList {
	s, path := &cron.Spec, field.NewPath("spec")
	var faults field.ErrorList
	if _, err := cronschedule.Parse("@daily", s.TimeZone, w.Local); err != nil {
		faults = append(faults, field.Invalid(path.Child("timeZone"), *s.TimeZone, err.Error()))
	} else if _, err := cronschedule.Parse(s.Schedule, s.TimeZone, w.Local); err != nil {
		faults = append(faults, field.Invalid(path.Child("schedule"), s.Schedule, err.Error()))
	}
	if n := s.StartingDeadlineSeconds; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("startingDeadlineSeconds"), *n,
			"a time can't be negative: leave it out for no deadline"))
	}
	if n := s.SuccessfulJobsHistoryLimit; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("successfulJobsHistoryLimit"), *n, "it can't be negative: 0 keeps no job"))
	}
	if n := s.FailedJobsHistoryLimit; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("failedJobsHistoryLimit"), *n, "it can't be negative: 0 keeps no job"))
	}
	at := path.Child("template")
	switch typeOf(&s.Template) {
	case appsv1beta1.AdvancedCronJobOfJobs:
		t, at := s.Template.JobTemplate, at.Child("jobTemplate")
		faults = append(faults, validateMeta(&t.ObjectMeta, at.Child("metadata"))...)
		return append(faults, workloadspec.JobPodSpec(&t.Spec.Template.Spec, "Job", at.Child("spec", "template", "spec"))...)
	case appsv1beta1.AdvancedCronJobOfBroadcastJobs:
		t, at := s.Template.BroadcastJobTemplate, at.Child("broadcastJobTemplate")
		faults = append(faults, validateMeta(&t.ObjectMeta, at.Child("metadata"))...)
		return append(faults, w.Templates.BroadcastJob(&t.Spec, at.Child("spec"))...)
	case appsv1beta1.AdvancedCronJobOfImageListPullJobs:
		if policy := policyOf(cron); policy == appsv1beta1.AdvancedCronJobAllow {
			faults = append(faults, field.NotSupported(path.Child("concurrencyPolicy"), policy,
				[]appsv1beta1.AdvancedCronJobConcurrencyPolicy{appsv1beta1.AdvancedCronJobReplace, appsv1beta1.AdvancedCronJobForbid}))
		}
		return append(faults, w.validatePull(s.Template.ImageListPullJobTemplate, at.Child("imageListPullJobTemplate"))...)
	}
	return append(faults, field.Invalid(at, field.OmitValueType{},
		"set exactly one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate, which v1alpha1 does not have"))
}

func (w *Webhook) validatePull(t *appsv1beta1.ImageListPullJobTemplateSpec, at *field.Path) field.ErrorList {
	faults := validateMeta(&t.ObjectMeta, at.Child("metadata"))
	faults = append(faults, w.Templates.ImageListPullJob(&t.Spec, at.Child("spec"))...)
	c, at := &t.Spec.CompletionPolicy, at.Child("spec", "completionPolicy")
	if c.Type != appsv1beta1.ImagePullJobAlways && c.Type != "" {
		faults = append(faults, field.NotSupported(at.Child("type"), c.Type,
			[]appsv1beta1.ImagePullJobCompletionPolicyType{appsv1beta1.ImagePullJobAlways}))
	}
	if c.TTLSecondsAfterFinished != nil {
		faults = append(faults, field.Forbidden(at.Child("ttlSecondsAfterFinished"),
			"successfulJobsHistoryLimit and failedJobsHistoryLimit determine which jobs are kept: remove it"))
	}
	if d := c.ActiveDeadlineSeconds; d != nil && *d > mostActiveSeconds {
		faults = append(faults, field.Invalid(at.Child("activeDeadlineSeconds"), *d, fmt.Sprintf("must be at most %d", mostActiveSeconds)))
	}
	return faults
}

// validateMeta validates what is copied to jobs.
func validateMeta(meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	faults := metav1validation.ValidateLabels(meta.Labels, path.Child("labels"))
	faults = append(faults, apivalidation.ValidateAnnotations(meta.Annotations, path.Child("annotations"))...)
	if _, ok := meta.Annotations[keys.ScheduledAt]; ok {
		faults = append(faults, field.Forbidden(path.Child("annotations").Key(keys.ScheduledAt),
			"the controller sets this annotation to when the run was due: remove it"))
	}
	return faults
}

// dryRun validates a template with dry runs: the pod template of a BroadcastJob, or a whole Job.
func (w *Webhook) dryRun(ctx context.Context, cron *appsv1beta1.AdvancedCronJob) (field.ErrorList, error) {
	namespace, at := admit.Namespace(ctx, cron), field.NewPath("spec", "template")
	switch typeOf(&cron.Spec.Template) {
	case appsv1beta1.AdvancedCronJobOfBroadcastJobs:
		template, path := podTemplateOf(&cron.Spec.Template)
		_, faults, err := w.pods.Check(ctx, w.Client, namespace, template, nil, path)
		return faults, err
	case appsv1beta1.AdvancedCronJobOfJobs:
		job := newChild(cron, time.Unix(mostActiveSeconds*1e5, 0)) // Any time with ten digits.
		job.SetNamespace(namespace)
		job.SetOwnerReferences(nil)
		if cron.Name == "" {
			job.SetName("")
			job.SetGenerateName(cron.GenerateName)
		}
		return reroot(w.Client.Create(ctx, job, client.DryRunAll), at.Child("jobTemplate"))
	case appsv1beta1.AdvancedCronJobOfImageListPullJobs: // Its webhook doesn't ask the apiserver either.
	}
	return nil, nil
}

// reroot returns the faults of a Job under the path of its template. Any other refusal, such as by a quota, is about the current moment and
// doesn't concern jobs created later.
func reroot(err error, path *field.Path) (field.ErrorList, error) {
	switch {
	case err == nil, apierrors.IsForbidden(err), apierrors.IsAlreadyExists(err):
		return nil, nil
	case !apierrors.IsInvalid(err):
		return nil, fmt.Errorf("validate the Job of the template by a dry run: %w", err)
	}
	var faults field.ErrorList
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			faults = append(faults, workloadspec.Fault(c, strings.TrimSuffix(path.String()+"."+c.Field, ".")))
		}
	}
	if len(faults) == 0 {
		faults = append(faults, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return faults, nil
}

// warnings returns warnings about fields that don't have the effect a user may expect.
func (w *Webhook) warnings(cron *appsv1beta1.AdvancedCronJob) admission.Warnings {
	var out admission.Warnings
	s, at := &cron.Spec, field.NewPath("spec", "template")
	if schedule, err := cronschedule.Parse(s.Schedule, s.TimeZone, w.Local); err == nil && schedule.Next(time.Unix(0, 0)).IsZero() {
		out = append(out, "spec.schedule: the schedule is never due")
	}
	switch t := &s.Template; typeOf(t) {
	case appsv1beta1.AdvancedCronJobOfJobs:
		out = append(out, unusedMeta(&t.JobTemplate.ObjectMeta, at.Child("jobTemplate", "metadata"))...)
		out = append(out, workloadspec.UnservedByJobPods(&t.JobTemplate.Spec.Template, at.Child("jobTemplate", "spec", "template"))...)
	case appsv1beta1.AdvancedCronJobOfBroadcastJobs:
		at, t := at.Child("broadcastJobTemplate"), t.BroadcastJobTemplate
		out = append(out, unusedMeta(&t.ObjectMeta, at.Child("metadata"))...)
		out = append(out, workloadspec.UnservedByJobPods(&t.Spec.Template, at.Child("spec", "template"))...)
		if t.Spec.CompletionPolicy.Type == appsv1beta1.BroadcastJobNever {
			out = append(out, at.Child("spec", "completionPolicy", "type").String()+": jobs of type Never don't end: "+
				"with concurrencyPolicy Forbid only one will ever run, and with Allow they will accumulate")
		}
	case appsv1beta1.AdvancedCronJobOfImageListPullJobs:
		out = append(out, unusedMeta(&t.ImageListPullJobTemplate.ObjectMeta, at.Child("imageListPullJobTemplate", "metadata"))...)
	}
	return out
}

// unusedMeta warns about metadata that is not copied to jobs.
func unusedMeta(meta *metav1.ObjectMeta, path *field.Path) admission.Warnings {
	rest := meta.DeepCopy()
	rest.Labels, rest.Annotations = nil, nil
	if apiequality.Semantic.DeepEqual(rest, &metav1.ObjectMeta{}) {
		return nil
	}
	return admission.Warnings{path.String() + ": only labels and annotations are copied to jobs"}
}

func refuse(cron *appsv1beta1.AdvancedCronJob, faults field.ErrorList) error {
	return admit.Invalid(gvk(), cron.Name, faults)
}
