package workloadspec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// checkName is the name of the PodTemplate that is asked about and never stored.
const checkName = "flotilla-check-"

// PodTemplate asks the apiserver about template, for use in namespace beside claims (claim templates), and returns a copy
// with all defaults. Faults come as field errors under path, those of the name of a claim under the claim, which stands beside
// a path that ends in template. The error is for a question that got no answer; both are
// nil for a valid template. c needs the verb create on podtemplates.
func PodTemplate(
	ctx context.Context, c client.Client, namespace string, template *corev1.PodTemplateSpec,
	claims []corev1.PersistentVolumeClaim, path *field.Path,
) (*corev1.PodTemplateSpec, field.ErrorList, error) {
	asked := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{GenerateName: checkName, Namespace: namespace},
		Template:   *template.DeepCopy(),
	}
	own := asked.Template.Spec.Volumes
	asked.Template.Spec.Volumes = withClaims(own, claims)
	err := c.Create(ctx, asked, client.DryRunAll)
	var refused *apierrors.StatusError
	if errors.As(err, &refused) && apierrors.IsInvalid(err) && refused.ErrStatus.Details != nil {
		given := len(asked.Template.Spec.Volumes) - len(claims)
		return nil, reroot(refused.ErrStatus.Details.Causes, path, given), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("check pod template by a dry run: %w", err)
	}
	out := asked.Template.DeepCopy()
	out.Spec.Volumes = restore(out.Spec.Volumes, own, claims)
	return out, nil, nil
}

// withClaims adds a volume for each claim template, in place of one of the same name.
func withClaims(volumes []corev1.Volume, claims []corev1.PersistentVolumeClaim) []corev1.Volume {
	out := slices.DeleteFunc(slices.Clone(volumes), func(v corev1.Volume) bool { return isClaim(v.Name, claims) })
	for i := range claims {
		out = append(out, corev1.Volume{
			Name: claims[i].Name,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claims[i].Name},
			},
		})
	}
	return out
}

// restore returns own with the defaults that defaulted has; those that a claim replaced stay as they were given.
func restore(defaulted, own []corev1.Volume, claims []corev1.PersistentVolumeClaim) []corev1.Volume {
	out := slices.Clone(own)
	for n, v := range own {
		if !isClaim(v.Name, claims) {
			if i := slices.IndexFunc(defaulted, func(d corev1.Volume) bool { return d.Name == v.Name }); i >= 0 {
				out[n] = defaulted[i]
			}
		}
	}
	return out
}

func isClaim(name string, claims []corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
}

// reroot turns the apiserver's causes, whose fields begin with "template", into field errors under path. Volumes after the first
// ones that were given are claims.
func reroot(causes []metav1.StatusCause, path *field.Path, given int) field.ErrorList {
	out := make(field.ErrorList, 0, len(causes))
	for _, c := range causes {
		name := path.String() + strings.TrimPrefix(c.Field, "template")
		var volume int
		if _, err := fmt.Sscanf(c.Field, "template.spec.volumes[%d].name", &volume); err == nil && volume >= given {
			if beside, ok := strings.CutSuffix(path.String(), "template"); ok {
				name = fmt.Sprintf("%svolumeClaimTemplates[%d].metadata.name", beside, volume-given)
			}
		}
		kind := field.ErrorType(c.Type)
		// The message is the kind in words, the bad value, a colon and the detail; the kind will be put before it again.
		detail := strings.TrimPrefix(strings.TrimPrefix(c.Message, kind.String()), ": ")
		out = append(out, &field.Error{Type: kind, Field: name, Detail: detail, BadValue: field.OmitValueType{}})
	}
	return out
}

// DefaultPVCs returns claim templates with the defaults of claims: volumeMode Filesystem.
func DefaultPVCs(claims []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	out := make([]corev1.PersistentVolumeClaim, len(claims))
	for i := range claims {
		out[i] = *claims[i].DeepCopy()
		if out[i].Spec.VolumeMode == nil {
			mode := corev1.PersistentVolumeFilesystem
			out[i].Spec.VolumeMode = &mode
		}
	}
	return out
}

// SamePVCs tells that two lists of claim templates differ by no more than the defaults of claims: a workload that was stored
// without them gets them with its next change, which is no new template.
func SamePVCs(a, b []corev1.PersistentVolumeClaim) bool {
	return apiequality.Semantic.DeepEqual(DefaultPVCs(a), DefaultPVCs(b))
}
