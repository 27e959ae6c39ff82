package imagepulljob

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

// Webhook sets defaults, and validates what neither schema nor CEL can. Objects of both versions arrive as v1beta1. It is safe for concurrent
// use.
type Webhook struct {
	// Off means that the feature gate is off, so nothing is pulled.
	Off bool
	// Secrets lists the names of the Secrets that jobs may reference: those that the manager may read.
	Secrets []string
}

var (
	_ admission.Defaulter[*appsv1beta1.ImagePullJob] = &Webhook{}
	_ admission.Validator[*appsv1beta1.ImagePullJob] = &Webhook{}
)

// Default sets defaults.
func (w *Webhook) Default(_ context.Context, job *appsv1beta1.ImagePullJob) error {
	imagepull.DefaultJob(&job.Spec.ImagePullJobTemplate)
	return nil
}

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(_ context.Context, job *appsv1beta1.ImagePullJob) (admission.Warnings, error) {
	if w.Off {
		return nil, admit.Invalid(gvk(), job.Name, field.ErrorList{field.Forbidden(field.NewPath("spec"), imagepull.Off)})
	}
	return nil, admit.Invalid(gvk(), job.Name, w.validate(&job.Spec))
}

// ValidateUpdate validates a change. Faults that the object already had are only warnings, because it may be older than the rule.
func (w *Webhook) ValidateUpdate(_ context.Context, old, job *appsv1beta1.ImagePullJob) (admission.Warnings, error) {
	fresh, warnings := admit.Ratchet(w.validate(&job.Spec), w.validate(&old.Spec))
	if job.Status.CompletionTime != nil && !apiequality.Semantic.DeepEqual(old.Spec, job.Spec) {
		warnings = append(warnings, "spec: the job is complete and won't pull anything more: create another ImagePullJob")
	}
	return warnings, admit.Invalid(gvk(), job.Name, fresh)
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.ImagePullJob) (admission.Warnings, error) {
	return nil, nil
}

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

func (w *Webhook) validate(s *appsv1beta1.ImagePullJobSpec) field.ErrorList {
	path := field.NewPath("spec")
	return append(imagepull.ValidateImage(s.Image, path.Child("image")), imagepull.Validate(&s.ImagePullJobTemplate, w.Secrets, path)...)
}
