package nodeimage

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

// Webhook sets defaults, and validates what neither schema nor CEL can. Objects of both versions arrive as v1beta1. It is safe for concurrent
// use.
type Webhook struct {
	// Clock tells when an entry was created. Required.
	Clock clock.PassiveClock
}

var (
	_ admission.Defaulter[*appsv1beta1.NodeImage] = &Webhook{}
	_ admission.Validator[*appsv1beta1.NodeImage] = &Webhook{}
)

// Default sets defaults for the entries. If the job that set an entry's values is gone, the entry gets defaults again for the remaining jobs.
func (w *Webhook) Default(_ context.Context, n *appsv1beta1.NodeImage) error {
	for _, image := range n.Spec.Images {
		for i := range image.Tags {
			t := &image.Tags[i]
			if t.CreatedAt == nil {
				t.CreatedAt = new(metav1.NewTime(w.Clock.Now()).Rfc3339Copy())
			}
			if t.PullPolicy == nil {
				t.PullPolicy = &appsv1beta1.ImageTagPullPolicy{}
			}
			p := t.PullPolicy
			if p.TimeoutSeconds == nil {
				p.TimeoutSeconds = new(int32(imagepull.DefaultTimeoutSeconds))
			}
			if p.BackoffLimit == nil {
				p.BackoffLimit = new(int32(imagepull.DefaultBackoffLimit))
			}
			if p.TTLSecondsAfterFinished == nil && len(t.OwnerReferences) > 0 {
				p.TTLSecondsAfterFinished = new(int32(imagepull.DefaultTTLSeconds))
			}
		}
	}
	return nil
}

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(_ context.Context, n *appsv1beta1.NodeImage) (admission.Warnings, error) {
	return nil, admit.Invalid(gvk(), n.Name, validate(&n.Spec))
}

// ValidateUpdate validates a change. Faults that the object already had are only warnings, because it may be older than the rule.
func (w *Webhook) ValidateUpdate(_ context.Context, old, n *appsv1beta1.NodeImage) (admission.Warnings, error) {
	fresh, warnings := admit.Ratchet(validate(&n.Spec), validate(&old.Spec))
	return warnings, admit.Invalid(gvk(), n.Name, fresh)
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.NodeImage) (admission.Warnings, error) {
	return nil, nil
}

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

func validate(s *appsv1beta1.NodeImageSpec) field.ErrorList {
	var faults field.ErrorList
	images := field.NewPath("spec", "images")
	for _, name := range slices.Sorted(maps.Keys(s.Images)) {
		image := s.Images[name]
		for i := range image.Tags {
			t, at := &image.Tags[i], images.Key(name).Child("tags").Index(i)
			ref := imagepull.Reference{Name: name, Tag: t.Tag}
			if got, err := imagepull.Parse(ref.String()); err != nil || got != ref {
				faults = append(faults, field.Invalid(at.Child("tag"), t.Tag,
					"it is not a tag or digest of "+name+": use the name without tag as the key, and the tag or sha256: with the digest here"))
			}
			faults = append(faults, validatePolicy(t.PullPolicy, at.Child("pullPolicy"))...)
		}
	}
	return faults
}

func validatePolicy(p *appsv1beta1.ImageTagPullPolicy, path *field.Path) field.ErrorList {
	if p == nil || p.TTLSecondsAfterFinished == nil {
		return field.ErrorList{field.Required(path.Child("ttlSecondsAfterFinished"),
			"give the number of seconds after which a finished entry is removed, such as 3600")}
	}
	var faults field.ErrorList
	negative := func(name string, value int64) {
		if value < 0 {
			faults = append(faults, field.Invalid(path.Child(name), value, "it is negative: give 0 or more"))
		}
	}
	negative("ttlSecondsAfterFinished", int64(*p.TTLSecondsAfterFinished))
	if p.BackoffLimit != nil {
		negative("backoffLimit", int64(*p.BackoffLimit))
	}
	if p.TimeoutSeconds != nil && *p.TimeoutSeconds <= 0 {
		faults = append(faults, field.Invalid(path.Child("timeoutSeconds"), *p.TimeoutSeconds, "give at least 1 second"))
	}
	if p.ActiveDeadlineSeconds != nil && *p.ActiveDeadlineSeconds <= 0 {
		faults = append(faults, field.Invalid(path.Child("activeDeadlineSeconds"), *p.ActiveDeadlineSeconds,
			"give at least 1 second, or leave it out for no deadline"))
	}
	return faults
}
