package broadcastjob

import (
	"context"
	"fmt"
	"math"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Webhook defaults BroadcastJobs and validates what neither schema nor CEL can. Objects of both versions arrive as v1beta1. It is safe for
// concurrent use.
type Webhook struct {
	// Client creates pod templates with dry runs.
	Client client.Client

	templates workloadspec.PodTemplates
}

var (
	_ admission.Defaulter[*appsv1beta1.BroadcastJob] = &Webhook{}
	_ admission.Validator[*appsv1beta1.BroadcastJob] = &Webhook{}
)

// Default sets defaults, also in the pod template. A template that is equivalent to the stored one keeps its stored form. A missing
// restartPolicy is left out, because the apiserver's default for it is refused.
func (w *Webhook) Default(ctx context.Context, job *appsv1beta1.BroadcastJob) error {
	setDefaults(&job.Spec)
	policy := job.Spec.Template.Spec.RestartPolicy
	if policy == "" {
		return nil
	}
	old, err := admit.Old[appsv1beta1.BroadcastJob](ctx)
	if err != nil {
		return err
	}
	stored := workloadspec.Templates{}
	if old != nil {
		stored.Pod = &old.Spec.Template
	}
	done, faults, err := w.templates.Complete(ctx, w.Client, admit.Namespace(ctx, job), stored,
		workloadspec.Templates{Pod: &job.Spec.Template}, workloadspec.AllDefaults, field.NewPath("spec", "template"))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return refuse(job, faults)
	}
	job.Spec.Template = *done.Pod
	return nil
}

func setDefaults(s *appsv1beta1.BroadcastJobSpec) {
	if s.Parallelism == nil {
		s.Parallelism = new(intstr.FromInt32(math.MaxInt32))
	}
	if s.CompletionPolicy.Type == "" {
		s.CompletionPolicy.Type = appsv1beta1.BroadcastJobAlways
	}
	if s.FailurePolicy.Type == "" {
		s.FailurePolicy.Type = appsv1beta1.BroadcastJobFailFast
	}
}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, job *appsv1beta1.BroadcastJob) (admission.Warnings, error) {
	faults := validate(job)
	if len(faults) == 0 { // Otherwise the apiserver would complain about the default of a missing restartPolicy.
		var err error
		if faults, err = w.checkTemplate(ctx, job); err != nil {
			return nil, err
		}
	}
	return warnings(job), refuse(job, faults)
}

// ValidateUpdate implements admission.Validator. Faults that the old spec already had are only warnings.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, job *appsv1beta1.BroadcastJob) (admission.Warnings, error) {
	news := admit.NewWarnings(warnings(job), warnings(old))
	if apiequality.Semantic.DeepEqual(old.Spec, job.Spec) {
		return news, nil // Metadata may have changed.
	}
	faults, warned := admit.Ratchet(validate(job), validate(old))
	if len(faults) == 0 && !apiequality.Semantic.DeepEqual(old.Spec.Template, job.Spec.Template) {
		var err error
		if faults, err = w.checkTemplate(ctx, job); err != nil {
			return nil, err
		}
		if finished(job) {
			warned = append(warned, "spec.template: the job has ended and won't create more pods: create another BroadcastJob")
		}
	}
	return append(warned, news...), refuse(job, faults)
}

// ValidateDelete implements admission.Validator; nothing is refused.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.BroadcastJob) (admission.Warnings, error) {
	return nil, nil
}

// checkTemplate validates the pod template with a dry run.
func (w *Webhook) checkTemplate(ctx context.Context, job *appsv1beta1.BroadcastJob) (field.ErrorList, error) {
	_, faults, err := w.templates.Check(ctx, w.Client, admit.Namespace(ctx, job), &job.Spec.Template, nil, field.NewPath("spec", "template"))
	return faults, err
}

// validate validates an object on its own, without asking the apiserver.
func validate(job *appsv1beta1.BroadcastJob) field.ErrorList {
	name, path := job.Name, field.NewPath("spec")
	var faults field.ErrorList
	if name == "" {
		name = job.GenerateName + "12345" // The apiserver appends that many random characters.
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprintf(
			"it is a label value of pods: use at most %d letters, digits and dashes", validation.DNS1123LabelMaxLength)))
	}
	return append(faults, ValidateSpec(&job.Spec, path)...)
}

// ValidateSpec validates a spec at path on its own, without asking the apiserver about its template. Kinds that create BroadcastJobs use it
// too.
func ValidateSpec(s *appsv1beta1.BroadcastJobSpec, path *field.Path) field.ErrorList {
	_, faults := workloadspec.IntOrPercent(s.Parallelism, workloadspec.MaxPercent, 0, path.Child("parallelism"))
	for _, key := range []string{keys.BroadcastJobName, keys.BroadcastJobUID} {
		if _, ok := s.Template.Labels[key]; ok {
			faults = append(faults, field.Forbidden(path.Child("template", "metadata", "labels").Key(key),
				"the controller sets this label, so that users can find the pods of a job: remove it"))
		}
	}
	at := path.Child("completionPolicy")
	if d := s.CompletionPolicy.ActiveDeadlineSeconds; d != nil && *d < 0 {
		faults = append(faults, field.Invalid(at.Child("activeDeadlineSeconds"), *d, "a time can't be negative: leave it out for no deadline"))
	}
	if ttl := s.CompletionPolicy.TTLSecondsAfterFinished; ttl != nil && *ttl < 0 {
		faults = append(faults, field.Invalid(at.Child("ttlSecondsAfterFinished"), *ttl, "a time can't be negative: leave it out to keep the job"))
	}
	if n := s.FailurePolicy.RestartLimit; n < 0 {
		faults = append(faults, field.Invalid(path.Child("failurePolicy", "restartLimit"), n, "it can't be negative: 0 allows no container restarts"))
	}
	return append(faults, workloadspec.JobPodSpec(&s.Template.Spec, kind, path.Child("template", "spec"))...)
}

// warnings returns warnings about fields that don't have the effect a user may expect.
func warnings(job *appsv1beta1.BroadcastJob) admission.Warnings {
	return workloadspec.UnservedByJobPods(&job.Spec.Template, field.NewPath("spec", "template"))
}

func refuse(job *appsv1beta1.BroadcastJob, faults field.ErrorList) error {
	return admit.Invalid(Kind(), job.Name, faults)
}
