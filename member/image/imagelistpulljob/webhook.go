package imagelistpulljob

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

// kind is the kind's name.
const kind = "ImageListPullJob"

// Webhook sets defaults, and validates what neither schema nor CEL can. Objects of both versions arrive as v1beta1. It is safe for concurrent
// use.
type Webhook struct {
	// Off means that the feature gate is off, so nothing is pulled.
	Off bool
	// Secrets lists the names of the Secrets that jobs may reference: those that the manager may read.
	Secrets []string
}

var (
	_ admission.Defaulter[*appsv1beta1.ImageListPullJob] = &Webhook{}
	_ admission.Validator[*appsv1beta1.ImageListPullJob] = &Webhook{}
)

// Default sets defaults. An imagePullPolicy that is not set stays unset, as in OpenKruise; the ImagePullJobs get the default.
func (w *Webhook) Default(_ context.Context, job *appsv1beta1.ImageListPullJob) error {
	imagepull.Default(&job.Spec.ImagePullJobTemplate)
	return nil
}

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(_ context.Context, job *appsv1beta1.ImageListPullJob) (admission.Warnings, error) {
	faults := w.validate(&job.Spec)
	if w.Off {
		faults = field.ErrorList{field.Forbidden(field.NewPath("spec"), imagepull.Off)}
	}
	return nil, admit.Invalid(gvk(), job.Name, faults)
}

// ValidateUpdate validates a change. Faults that the object already had are only warnings, because it may be older than the rule.
func (w *Webhook) ValidateUpdate(_ context.Context, old, job *appsv1beta1.ImageListPullJob) (admission.Warnings, error) {
	fresh, warnings := admit.Ratchet(w.validate(&job.Spec), w.validate(&old.Spec))
	return warnings, admit.Invalid(gvk(), job.Name, fresh)
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.ImageListPullJob) (admission.Warnings, error) {
	return nil, nil
}

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

func (w *Webhook) validate(s *appsv1beta1.ImageListPullJobSpec) field.ErrorList {
	return ValidateSpec(s, w.Secrets, field.NewPath("spec"))
}

// ValidateSpec validates a spec at path. secrets lists the Secrets that it may reference. Kinds that create ImageListPullJobs use it too.
func ValidateSpec(s *appsv1beta1.ImageListPullJobSpec, secrets []string, path *field.Path) field.ErrorList {
	faults := imagepull.Validate(&s.ImagePullJobTemplate, secrets, path)
	known := map[imagepull.Reference]string{}
	for i, image := range s.Images {
		at := path.Child("images").Index(i)
		more := imagepull.ValidateImage(image, at)
		faults = append(faults, more...)
		if len(more) > 0 {
			continue
		}
		ref, _ := imagepull.Parse(image) // It is valid at this point.
		if other, twice := known[ref]; twice {
			faults = append(faults, field.Invalid(at, image, "it is the same image as "+other+": remove one of them"))
		}
		known[ref] = image
	}
	return faults
}
